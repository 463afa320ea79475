package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"firebreakdns.io/firebreak/test/cluster/lab/spec"
)

// pkiDir is where machines have certificates and kubeconfigs.
const pkiDir = "/etc/kubernetes"

// bootControl boots the control plane's machine and gives it its network.
func (c *Cluster) bootControl(ctx context.Context) (*keeper, error) {
	k, err := c.boot(ctx, control, spec.Machine{
		Binds:    []spec.Bind{{From: filepath.Join(c.dir, "pki"), To: pkiDir, ReadOnly: true}},
		Sysctls:  netSysctls(),
		HostLink: linkName(c.name),
		Programs: c.controlPrograms(),
	})
	if err != nil {
		return nil, err
	}
	m, err := c.machine(control)
	if err != nil {
		return nil, err
	}
	return k, c.wireControl(ctx, m.First.PID)
}

// startControl starts the control plane's programs and returns when the API
// server answers that it is ready.
func (c *Cluster) startControl(ctx context.Context, k *keeper) error {
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if err := k.order(spec.Start, name); err != nil {
			return err
		}
	}
	if err := c.waitAPI(ctx); err != nil {
		return err
	}
	// These give up when the API server is not there, so they come after it.
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		if err := k.order(spec.Start, name); err != nil {
			return err
		}
	}
	return c.allowKubeletAPI(ctx)
}

// makeControlPKI makes all certificates of the control plane, and the
// administrator's kubeconfig.
func (c *Cluster) makeControlPKI() error {
	dir := filepath.Join(c.dir, "pki")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, err := newAuthority("kubernetes")
	if err != nil {
		return err
	}
	// Who asks through the API server's aggregation is trusted by another
	// authority, as kubeadm has it: else any user could pass for any other.
	front, err := newAuthority("front-proxy")
	if err != nil {
		return err
	}
	serving, err := ca.server("kube-apiserver",
		[]string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		[]net.IP{
			c.plan.control4().AsSlice(), c.plan.control6().AsSlice(), net.IPv4(127, 0, 0, 1),
			nth(c.plan.services4(), 1).AsSlice(), nth(c.plan.services6(), 1).AsSlice(),
		})
	if err != nil {
		return err
	}
	toKubelets, err1 := ca.client(kubeletClient)
	toBackends, err2 := front.client("front-proxy-client")
	err = errors.Join(err1, err2,
		ca.save(dir, "ca"), front.save(dir, "front-proxy-ca"), saveKeyPair(dir, "sa"),
		serving.save(dir, "apiserver"), toKubelets.save(dir, "apiserver-kubelet-client"), toBackends.save(dir, "front-proxy-client"),
	)
	for file, user := range map[string]string{
		"controller-manager.conf": "system:kube-controller-manager",
		"scheduler.conf":          "system:kube-scheduler",
	} {
		err = errors.Join(err, c.saveUser(ca, filepath.Join(dir, file), user))
	}
	// The administrator's goes elsewhere: no program has it.
	return errors.Join(err, c.saveUser(ca, c.KubeconfigPath(), "administrator", "system:masters"))
}

// saveUser writes a kubeconfig with a new certificate.
func (c *Cluster) saveUser(ca *authority, file, user string, groups ...string) error {
	cert, err := ca.client(user, groups...)
	if err != nil {
		return err
	}
	return saveKubeconfig(file, c.name, c.Server(), ca.certPEM, cert)
}

// controlPrograms are the programs of the control plane, with the flags that a
// cluster made by kubeadm has where they matter to what runs on it.
func (c *Cluster) controlPrograms() []spec.Program {
	const etcd = "http://127.0.0.1:2379"
	pki := func(name string) string { return pkiDir + "/" + name }
	both := func(a, b fmt.Stringer) string { return a.String() + "," + b.String() }
	programs := []spec.Program{
		{Name: "etcd", Args: []string{
			"--data-dir=/var/lib/etcd", "--log-level=warn",
			"--listen-client-urls=" + etcd, "--advertise-client-urls=" + etcd,
			"--listen-peer-urls=http://127.0.0.1:2380",
			// What it holds is thrown away with the cluster.
			"--unsafe-no-fsync",
		}},
		{Name: "kube-apiserver", Args: []string{
			"--etcd-servers=" + etcd,
			"--bind-address=::", "--secure-port=6443", "--advertise-address=" + c.plan.control4().String(),
			"--tls-cert-file=" + pki("apiserver.crt"), "--tls-private-key-file=" + pki("apiserver.key"),
			"--client-ca-file=" + pki("ca.crt"),
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--allow-privileged=true",
			"--service-cluster-ip-range=" + both(c.plan.services4(), c.plan.services6()),
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-signing-key-file=" + pki("sa.key"), "--service-account-key-file=" + pki("sa.pub"),
			"--kubelet-certificate-authority=" + pki("ca.crt"),
			"--kubelet-client-certificate=" + pki("apiserver-kubelet-client.crt"),
			"--kubelet-client-key=" + pki("apiserver-kubelet-client.key"),
			"--kubelet-preferred-address-types=InternalIP",
			"--requestheader-client-ca-file=" + pki("front-proxy-ca.crt"),
			"--requestheader-allowed-names=front-proxy-client",
			"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--proxy-client-cert-file=" + pki("front-proxy-client.crt"),
			"--proxy-client-key-file=" + pki("front-proxy-client.key"),
			// No kube-proxy runs beside it: webhooks and the like are called at
			// their pods.
			"--enable-aggregator-routing=true",
		}},
		{Name: "kube-controller-manager", Args: []string{
			"--kubeconfig=" + pki("controller-manager.conf"),
			"--authentication-kubeconfig=" + pki("controller-manager.conf"),
			"--authorization-kubeconfig=" + pki("controller-manager.conf"),
			"--use-service-account-credentials=true",
			"--service-account-private-key-file=" + pki("sa.key"), "--root-ca-file=" + pki("ca.crt"),
			"--cluster-signing-cert-file=" + pki("ca.crt"), "--cluster-signing-key-file=" + pki("ca.key"),
			"--bind-address=127.0.0.1", "--leader-elect=false",
			"--flex-volume-plugin-dir=" + volumePlugins,
		}},
		{Name: "kube-scheduler", Args: []string{
			"--kubeconfig=" + pki("scheduler.conf"),
			"--authentication-kubeconfig=" + pki("scheduler.conf"),
			"--authorization-kubeconfig=" + pki("scheduler.conf"),
			"--bind-address=127.0.0.1", "--leader-elect=false",
		}},
	}
	return complete(programs)
}

// complete fills in what all programs have alike.
func complete(programs []spec.Program) []spec.Program {
	for i := range programs {
		p := &programs[i]
		p.File, p.Env, p.Log = programPath(p.Name), environment(), "/var/log/"+p.Name+".log"
	}
	return programs
}

// waitAPI waits until the API server says that it is ready.
func (c *Cluster) waitAPI(ctx context.Context) error {
	return poll(ctx, time.Minute, "the API server to be ready", func(ctx context.Context) error {
		return c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// kubeletClient is the user that kubelets see when the API server asks them for
// logs and the like.
const kubeletClient = "kube-apiserver-kubelet-client"

// allowKubeletAPI gives the API server what it needs at kubelets.
func (c *Cluster) allowKubeletAPI(ctx context.Context) error {
	_, err := c.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: kubeletClient},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: kubeletClient}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
