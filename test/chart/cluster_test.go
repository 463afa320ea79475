package chart

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"firebreakdns.io/firebreak/test/cluster/lab"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// objects are all that was rendered.
func objects(t *testing.T, rendered string) []*unstructured.Unstructured {
	t.Helper()
	var found []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(rendered), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Object) > 0 {
			found = append(found, o)
		}
	}
}

// elsewhere are the groups whose kinds a cluster has from others' charts.
var elsewhere = []string{"monitoring.coreos.com", "cilium.io"}

// A real API server takes every object of every set of values, with no field that
// it does not know.
func TestAPIServerTakesIt(t *testing.T) {
	rendered := map[string]string{}
	for name, values := range valueSets(t) {
		var err error
		if rendered[name], err = render(t, values); err != nil {
			t.Fatal(err)
		}
	}
	c := lab.Start(t, lab.Options{})
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Client().Discovery()))
	if _, err := c.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "dns"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, text := range rendered {
		t.Run(name, func(t *testing.T) {
			all := objects(t, text)
			applied := 0
			for _, o := range all {
				kind := o.GroupVersionKind()
				if slices.Contains(elsewhere, kind.Group) {
					continue
				}
				mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
				if err != nil {
					t.Errorf("%s: %v", kind, err)
					continue
				}
				var to dynamic.ResourceInterface = client.Resource(mapping.Resource)
				if ns := o.GetNamespace(); ns != "" {
					to = client.Resource(mapping.Resource).Namespace(ns)
				}
				body, err := o.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				_, err = to.Patch(t.Context(), o.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{
					FieldManager: "chart", FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll},
				})
				if err != nil {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
					continue
				}
				applied++
			}
			if applied < 5 {
				t.Errorf("%d objects of %d were applied, want a ConfigMap, a DaemonSet, a ServiceAccount, a Role and its binding at least", applied, len(all))
			}
		})
	}
}

// packed is the product's image of the DNS server as build/image makes it.
func packed(t *testing.T, ref string) lab.Image {
	t.Helper()
	file := filepath.Join(t.TempDir(), "coredns.tar")
	cmd := exec.Command(program(t, "image"), "-o", file, "-version", "test", "-ref", ref, runtime.GOARCH+"="+program(t, "coredns"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("image: %v\n%s", err, out)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	return lab.Archive(ref, file)
}
