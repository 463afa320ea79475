package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// The exec protocol: the first byte of a message says what the rest is.
const (
	execProtocol = "v5.channel.k8s.io"
	execStdout   = 1
	execStderr   = 2
	execStatus   = 3
)

// Exec runs a command in a pod's container, as kubectl exec does: by way of the
// API server, the kubelet and containerd. Without a container it is the pod's
// only one. A command that fails is an error with what it said.
func (c *Cluster) Exec(ctx context.Context, namespace, pod, container string, args ...string) (stdout string, err error) {
	query := url.Values{"stdout": {"1"}, "stderr": {"1"}, "command": args}
	if container != "" {
		query.Set("container", container)
	}
	address := strings.Replace(c.Server(), "https://", "wss://", 1) +
		"/api/v1/namespaces/" + namespace + "/pods/" + pod + "/exec?" + query.Encode()
	tls, err := rest.TLSConfigFor(c.config)
	if err != nil {
		return "", err
	}
	// The protocol has HTTP/1.1 to begin with.
	tls.NextProtos = []string{"http/1.1"}
	dialer := websocket.Dialer{TLSClientConfig: tls, Subprotocols: []string{execProtocol}}
	conn, answer, err := dialer.DialContext(ctx, address, http.Header{})
	if err != nil {
		return "", fmt.Errorf("exec %v in %s/%s: %w%s", args, namespace, pod, err, reason(answer))
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	var out, said bytes.Buffer
	for {
		_, message, err := conn.ReadMessage()
		if err != nil {
			return out.String(), fmt.Errorf("exec %v in %s/%s: the connection ended before the command: %w", args, namespace, pod, errors.Join(context.Cause(ctx), err))
		}
		if len(message) == 0 {
			continue
		}
		switch message[0] {
		case execStdout:
			out.Write(message[1:])
		case execStderr:
			said.Write(message[1:])
		case execStatus:
			var status metav1.Status
			if err := json.Unmarshal(message[1:], &status); err != nil {
				return out.String(), err
			}
			if status.Status != metav1.StatusSuccess {
				return out.String(), fmt.Errorf("exec %v in %s/%s: %s: %s", args, namespace, pod, status.Message, strings.TrimSpace(said.String()))
			}
			return out.String(), nil
		}
	}
}

// reason is what an answer says that refused a connection.
func reason(answer *http.Response) string {
	if answer == nil {
		return ""
	}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	return ": " + answer.Status + ": " + string(body)
}
