package lab

import (
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig is a file's content for one user of a cluster.
func kubeconfig(cluster, server string, ca []byte, user api.AuthInfo) ([]byte, error) {
	config := api.NewConfig()
	config.Clusters[cluster] = &api.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos["user"] = &user
	config.Contexts[cluster] = &api.Context{Cluster: cluster, AuthInfo: "user"}
	config.CurrentContext = cluster
	return clientcmd.Write(*config)
}

// saveKubeconfig writes the kubeconfig of a user who shows a certificate.
func saveKubeconfig(file, cluster, server string, ca []byte, cert pair) error {
	content, err := kubeconfig(cluster, server, ca, api.AuthInfo{ClientCertificateData: cert.cert, ClientKeyData: cert.key})
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}

// restConfig reads a kubeconfig for use by a test: without a limit on the rate
// of calls, which client-go has by default and which would slow a test down.
func restConfig(file string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err == nil {
		config.QPS = -1
	}
	return config, err
}
