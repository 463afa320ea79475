package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// object is something as the API has it in JSON.
type object = map[string]any

// call sends an object to a path of the API.
func (w *world) call(ctx context.Context, verb, path string, body object) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return w.client().Discovery().RESTClient().Verb(verb).AbsPath(path).
		SetHeader("Content-Type", "application/json").Body(content).Do(ctx).Error()
}

// Rules in CEL of a custom resource hold, for what is made and for what changes.
func testCRD(t *testing.T, w *world) {
	ns := w.namespace(t)
	const group, path = "truth.test", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	rule := func(rule, message string) object { return object{"rule": rule, "message": message} }
	spec := object{
		"type": "object",
		"properties": object{
			"low": object{"type": "integer"}, "high": object{"type": "integer"},
			"zone": object{"type": "string", "x-kubernetes-validations": []object{rule("self == oldSelf", "zone never changes")}},
		},
		"x-kubernetes-validations": []object{rule("self.low <= self.high", "low is at most high")},
	}
	err := w.call(t.Context(), "POST", path, object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": "spans." + group},
		"spec": object{
			"group": group, "scope": "Namespaced", "names": object{"plural": "spans", "singular": "span", "kind": "Span", "listKind": "SpanList"},
			"versions": []object{{
				"name": "v1", "served": true, "storage": true,
				"schema": object{"openAPIV3Schema": object{"type": "object", "properties": object{"spec": spec}}},
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.call(context.Background(), "DELETE", path+"/spans."+group, object{}); err != nil {
			t.Error(err)
		}
	})
	spans := "/apis/" + group + "/v1/namespaces/" + ns + "/spans"
	span := func(low, high int, zone string) object {
		return object{
			"apiVersion": group + "/v1", "kind": "Span", "metadata": object{"name": "span"},
			"spec": object{"low": low, "high": high, "zone": zone},
		}
	}
	eventually(t, 30*time.Second, "the new kind to be served", func(ctx context.Context) error {
		return w.call(ctx, "POST", spans, span(1, 2, "a"))
	})
	bad := span(3, 2, "a")
	bad["metadata"] = object{"name": "bad"}
	refused(t, w.call(t.Context(), "POST", spans, bad), "low is at most high")
	current := func(changed object) object {
		raw, err := w.client().Discovery().RESTClient().Get().AbsPath(spans + "/span").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var there object
		if err := json.Unmarshal(raw, &there); err != nil {
			t.Fatal(err)
		}
		there["spec"] = changed["spec"]
		return there
	}
	refused(t, w.call(t.Context(), "PUT", spans+"/span", current(span(1, 2, "b"))), "zone never changes")
	if err := w.call(t.Context(), "PUT", spans+"/span", current(span(1, 5, "a"))); err != nil {
		t.Errorf("a change that breaks no rule: %v", err)
	}
}

// Rules in CEL for objects of any kind, by an admission policy.
func testAdmission(t *testing.T, w *world) {
	ns := w.namespace(t)
	const path = "/apis/admissionregistration.k8s.io/v1/"
	meta := object{"name": ns}
	err := w.call(t.Context(), "POST", path+"validatingadmissionpolicies", object{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": meta,
		"spec": object{
			"matchConstraints": object{"resourceRules": []object{{
				"apiGroups": []string{""}, "apiVersions": []string{"v1"}, "operations": []string{"CREATE"}, "resources": []string{"configmaps"},
			}}},
			"validations": []object{{"expression": "!object.metadata.name.startsWith('no-')", "message": "not that name"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = w.call(t.Context(), "POST", path+"validatingadmissionpolicybindings", object{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": meta,
		"spec": object{
			"policyName": ns, "validationActions": []string{"Deny"},
			"matchResources": object{"namespaceSelector": object{"matchLabels": object{corev1.LabelMetadataName: ns}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, kind := range []string{"validatingadmissionpolicybindings/", "validatingadmissionpolicies/"} {
			if err := w.call(context.Background(), "DELETE", path+kind+ns, object{}); err != nil {
				t.Error(err)
			}
		}
	})
	n := 0
	make := func(ctx context.Context, prefix string) error {
		n++
		_, err := w.client().CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s%d", prefix, n)},
		}, metav1.CreateOptions{})
		return err
	}
	// A policy takes a moment to be in force.
	eventually(t, 30*time.Second, "the policy to refuse a name", func(ctx context.Context) error {
		if err := make(ctx, "no-"); err == nil || !strings.Contains(err.Error(), "not that name") {
			return fmt.Errorf("making it says %v", err)
		}
		return nil
	})
	if err := make(t.Context(), "yes-"); err != nil {
		t.Error(err)
	}
}

// refused says whether the API refused an object as invalid, for that reason.
func refused(t *testing.T, err error, why string) {
	t.Helper()
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), why) {
		t.Errorf("the API says %v, want it to refuse because %s", err, why)
	}
}
