package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"
)

// tokenSeconds is how long the token of a Kubeconfig is good for: a day.
const tokenSeconds int64 = 24 * 60 * 60

// Kubeconfig writes a kubeconfig for a service account, which must exist, and
// returns its file: for a program under test that runs outside of the cluster.
// It may do what RBAC lets the service account do, and no more.
func (c *Cluster) Kubeconfig(ctx context.Context, namespace, account string) (string, error) {
	seconds := tokenSeconds
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("a token for service account %s/%s: %w", namespace, account, err)
	}
	content, err := kubeconfig(c.name, c.Server(), c.config.CAData, api.AuthInfo{Token: token.Status.Token})
	if err != nil {
		return "", err
	}
	dir := filepath.Join(c.dir, "accounts")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, namespace+"."+account+".kubeconfig")
	return file, os.WriteFile(file, content, 0o600)
}

// ConfigFor is the access of a service account, which must exist.
func (c *Cluster) ConfigFor(ctx context.Context, namespace, account string) (*rest.Config, error) {
	file, err := c.Kubeconfig(ctx, namespace, account)
	if err != nil {
		return nil, err
	}
	return restConfig(file)
}

// NodeKubeconfig is the file with the access that a node's kubelet has: what
// the Node authorizer and NodeRestriction let it do.
func (c *Cluster) NodeKubeconfig(node string) string {
	return filepath.Join(c.machineDir(node), "pki", "kubelet.conf")
}
