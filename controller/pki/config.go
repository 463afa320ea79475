package pki

import (
	"crypto/tls"

	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

// ToServer is for calling a DNS server's control endpoint with a caller's
// certificate. The files are re-read when they change; warn, if not nil, is told
// of changes that cannot be used.
func ToServer(files mtls.Files, warn func(error)) (*tls.Config, error) {
	return caller(files, mtls.KindServer, warn)
}

// ToAPI is for calling the controller's API with a caller's certificate.
func ToAPI(files mtls.Files, warn func(error)) (*tls.Config, error) {
	return caller(files, mtls.KindAPI, warn)
}

func caller(files mtls.Files, to mtls.Kind, warn func(error)) (*tls.Config, error) {
	source, err := mtls.Open(files, mtls.KindClient, warn)
	if err != nil {
		return nil, err
	}
	return mtls.ClientConfig(source.Keys, to), nil
}

// APIServer is for serving the controller's API: every caller needs a client
// certificate of the CA. Its name is mtls.ClientName of the leaf, its roles are
// Roles of it.
func APIServer(files mtls.Files, warn func(error)) (*tls.Config, error) {
	source, err := mtls.Open(files, mtls.KindAPI, warn)
	if err != nil {
		return nil, err
	}
	return mtls.ServerConfig(source.Keys), nil
}
