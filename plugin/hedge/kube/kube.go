// Package kube reads the EndpointSlices of one Service from the Kubernetes API:
// the endpoints.Watcher that hedge uses in a cluster.
//
// It needs to list and watch endpointslices of discovery.k8s.io in the Service's
// namespace, and to get its own node where same-zone hints are to be followed.
// It never waits for the API server: what it cannot read is said, and tried
// again.
package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"firebreakdns.io/firebreak/plugin/hedge/endpoints"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// zoneWithin bounds the question for the node's zone: a start does not wait for
	// the API server.
	zoneWithin = 5 * time.Second
	// syncWithin is after what time a first list that has not come is said.
	syncWithin = 10 * time.Second
	// settle is how long after a change the slices are looked at: a rollout changes
	// several at once.
	settle = 50 * time.Millisecond
)

// Watcher reads from one API server.
type Watcher struct{ client kubernetes.Interface }

// Options say which API server, and as whom. All empty: the one of the cluster
// that this process runs in.
type Options struct {
	// Kubeconfig is a file, and Context one of its contexts ("": the current one).
	Kubeconfig, Context string
}

// New is a Watcher. Nothing is asked yet.
func New(o Options) (*Watcher, error) {
	config, err := configOf(o)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "firebreak-hedge"
	return newFor(config)
}

func newFor(config *rest.Config) (*Watcher, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Watcher{client: client}, nil
}

func configOf(o Options) (*rest.Config, error) {
	if o.Kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, fmt.Errorf("this process runs in no cluster (%s): name a kubeconfig", net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")))
		}
		return config, err
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: o.Kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: o.Context},
	).ClientConfig()
}

// Zone implements endpoints.Watcher.
func (w *Watcher) Zone(ctx context.Context, node string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, zoneWithin)
	defer cancel()
	n, err := w.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return n.Labels[corev1.LabelTopologyZone], nil
}

// Watch implements endpoints.Watcher.
func (w *Watcher) Watch(ctx context.Context, namespace, service string, changed func([]endpoints.Slice, error)) {
	list := cache.NewFilteredListWatchFromClient(w.client.DiscoveryV1().RESTClient(), "endpointslices", namespace, func(o *metav1.ListOptions) {
		o.LabelSelector = fields.OneTermEqualSelector(discoveryv1.LabelServiceName, service).String()
	})
	informer := cache.NewSharedIndexInformer(list, &discoveryv1.EndpointSlice{}, 0, cache.Indexers{})

	n := newNews()
	// Neither can fail before the informer runs.
	_ = informer.SetTransform(strip)
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { n.failed(err) })
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { n.changed() },
		UpdateFunc: func(any, any) { n.changed() },
		DeleteFunc: func(any) { n.changed() },
	})
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { informer.RunWithContext(ctx) })
	wg.Go(func() { // a Service without a slice makes no event
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			n.changed()
		}
	})

	late := time.NewTimer(syncWithin)
	defer late.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-late.C:
			if !informer.HasSynced() {
				changed(nil, errors.New("the API server has not answered yet"))
			}
			continue
		case <-n.wake:
		}
		dirty, err := n.take()
		if err != nil {
			changed(nil, fmt.Errorf("cannot read its endpoints: %w", err))
		}
		if !dirty || !informer.HasSynced() { // which is news as well
			continue
		}
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return
		}
		changed(slicesOf(informer.GetStore().List()), nil)
	}
}

// news are what the informer tells while somebody is busy with what it told
// before. A change and an error may come together, and neither hides the other.
type news struct {
	wake  chan struct{}
	mu    sync.Mutex
	dirty bool
	err   error
}

func newNews() *news { return &news{wake: make(chan struct{}, 1)} }

func (n *news) changed() { n.tell(func() { n.dirty = true }) }

func (n *news) failed(err error) { n.tell(func() { n.err = err }) }

func (n *news) tell(what func()) {
	n.mu.Lock()
	what()
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// take is what was told since the last call.
func (n *news) take() (dirty bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	dirty, err = n.dirty, n.err
	n.dirty, n.err = false, nil
	return dirty, err
}

// strip drops what is not used, for memory.
func strip(o any) (any, error) {
	if s, ok := o.(*discoveryv1.EndpointSlice); ok {
		s.ManagedFields, s.Annotations, s.OwnerReferences = nil, nil, nil
	}
	return o, nil
}

func slicesOf(objects []any) []endpoints.Slice {
	out := make([]endpoints.Slice, 0, len(objects))
	for _, o := range objects {
		s, ok := o.(*discoveryv1.EndpointSlice)
		if !ok || s.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		out = append(out, sliceOf(s))
	}
	return out
}

func sliceOf(s *discoveryv1.EndpointSlice) endpoints.Slice {
	var out endpoints.Slice
	for _, p := range s.Ports {
		if p.Port == nil {
			continue // every port: says nothing
		}
		port := endpoints.Port{Port: uint16(*p.Port), UDP: p.Protocol != nil && *p.Protocol == corev1.ProtocolUDP}
		if p.Name != nil {
			port.Name = *p.Name
		}
		out.Ports = append(out.Ports, port)
	}
	for _, e := range s.Endpoints {
		// What is not known is to be read as if all were well.
		c := e.Conditions
		server := endpoints.Server{
			Addresses: e.Addresses, Ready: unless(c.Ready, true), Serving: unless(c.Serving, true), Terminating: unless(c.Terminating, false),
		}
		if e.Hints != nil {
			for _, z := range e.Hints.ForZones {
				server.ForZones = append(server.ForZones, z.Name)
			}
			for _, n := range e.Hints.ForNodes {
				server.ForNodes = append(server.ForNodes, n.Name)
			}
		}
		out.Servers = append(out.Servers, server)
	}
	return out
}

// unless is a condition's value, or what it means that there is none.
func unless(condition *bool, none bool) bool {
	if condition == nil {
		return none
	}
	return *condition
}
