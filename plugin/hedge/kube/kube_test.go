package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/hedge/endpoints"
	"firebreakdns.io/firebreak/plugin/hedge/kube/kubetest"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/rest"
)

// TestWatch: slices are followed from an API server that is away at first.
func TestWatch(t *testing.T) {
	a := &kubetest.API{}
	a.Away(true)
	server := httptest.NewServer(a)
	defer server.Close()
	w, err := newFor(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	said := make(chan string, 64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Watch(ctx, "kube-system", "kube-dns", func(slices []endpoints.Slice, err error) {
			if err != nil {
				said <- "error: " + err.Error()
				return
			}
			list, err := endpoints.Of(slices, "dns", "", "z1")
			said <- fmt.Sprint(list, err)
		})
	}()
	defer func() { cancel(); server.CloseClientConnections(); <-done }()
	until := func(want string) {
		t.Helper()
		var last string
		for timeout := time.After(10 * time.Second); ; {
			select {
			case last = <-said:
				if strings.Contains(last, want) {
					return
				}
			case <-timeout:
				t.Fatalf("said %q last, want %q", last, want)
			}
		}
	}
	until("unable to handle the request")
	a.Away(false)
	until("it has no endpoints")
	a.Put("s1", "10.0.0.1", 53)
	until("[{10.0.0.1:53 2}]")
	a.Put("s1", "10.0.0.2", 53)
	until("[{10.0.0.2:53 2}]")
	a.Put("s1", "", 53)
	until("it has no endpoints")
	if zone, err := w.Zone(ctx, "n1"); zone != "z1" || err != nil {
		t.Error(zone, err)
	}
	if _, err := w.Zone(ctx, "n2"); err == nil {
		t.Error("no error for a node that is not there")
	}
}

// TestNews: a change and an error that come together are both told.
func TestNews(t *testing.T) {
	n := newNews()
	n.changed()
	n.failed(errors.New("away"))
	<-n.wake
	if dirty, err := n.take(); !dirty || err == nil {
		t.Errorf("told: a change %v, the error %v", dirty, err)
	}
	if dirty, err := n.take(); dirty || err != nil {
		t.Errorf("told again: a change %v, the error %v", dirty, err)
	}
}

// TestConditions: what a condition means that is not there, and what it says.
func TestConditions(t *testing.T) {
	yes, no := true, false
	for _, test := range []struct {
		of   discoveryv1.EndpointConditions
		want string
	}{
		{discoveryv1.EndpointConditions{}, "ready true serving true terminating false"},
		{discoveryv1.EndpointConditions{Ready: &no, Serving: &no}, "ready false serving false terminating false"},
		{discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}, "ready false serving true terminating true"},
	} {
		s := sliceOf(&discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{{Conditions: test.of}}}).Servers[0]
		if got := fmt.Sprintf("ready %v serving %v terminating %v", s.Ready, s.Serving, s.Terminating); got != test.want {
			t.Errorf("%+v: got %s, want %s", test.of, got, test.want)
		}
	}
}

// TestOutside: outside of a cluster, that is what the error says.
func TestOutside(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "name a kubeconfig") {
		t.Error(err)
	}
	if _, err := New(Options{Kubeconfig: "/nowhere"}); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Error(err)
	}
}
