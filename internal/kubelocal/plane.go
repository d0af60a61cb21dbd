package kubelocal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kinesin-io/kinesin/internal/loopback"
)

// controllers are what the pods of the chart need.
var controllers = []string{
	"deployment-controller", "replicaset-controller", "horizontal-pod-autoscaler-controller", "garbage-collector-controller",
	"serviceaccount-controller", "namespace-controller", "disruption-controller", "statefulset-controller", "persistentvolumeclaim-protection-controller",
}

// Options of a control plane. The zero value fits tests.
type Options struct {
	// Port of the API server. Default is a free one.
	Port int
	// AutoscaleEvery is how often HorizontalPodAutoscalers are looked at. Default 2 s; Kubernetes' own is 15
	// s.
	AutoscaleEvery time.Duration
}

// Plane is a running control plane. Its methods may be called from any goroutine.
type Plane struct {
	dir  string // data, keys, kubeconfigs
	port int    // of the API server

	etcd, api, controllers *program

	adminToken string
	config     *rest.Config // the administrator's
	client     *kubernetes.Clientset
}

// Launch starts a control plane, and returns when all of it is ready. It is for programs; tests call [Start].
func Launch(ctx context.Context, o Options) (*Plane, error) {
	if _, err := installed(); err != nil {
		return nil, err
	}
	var err error
	for range startsMax {
		var p *Plane
		if p, err = launch(ctx, o); err == nil {
			return p, nil
		}
		if !errors.Is(err, loopback.ErrPortTaken) || o.Port != 0 {
			break
		}
	}
	return nil, err
}

func launch(ctx context.Context, o Options) (*Plane, error) {
	dir, err := os.MkdirTemp("", "kinesin-kube-")
	if err != nil {
		return nil, err
	}
	p := &Plane{dir: dir}
	if err := p.start(ctx, o); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Plane) start(ctx context.Context, o Options) error {
	if err := p.plan(o); err != nil {
		return err
	}
	if err := p.writeKeys(); err != nil {
		return err
	}
	if err := p.etcd.start(ctx); err != nil {
		return err
	}
	if err := p.api.start(ctx); err != nil {
		return err
	}
	if err := p.connect(); err != nil {
		return err
	}
	return p.controllers.start(ctx)
}

// plan says how the programs are run.
func (p *Plane) plan(o Options) error {
	var ports [3]int
	for i := range ports {
		var err error
		if ports[i], err = loopback.FreePort(); err != nil {
			return err
		}
	}
	p.port = cmp.Or(o.Port, ports[2])
	var err error
	if p.etcd, err = p.program("etcd", ports[0], []string{
		"--name=one", "--data-dir=" + p.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + httpURL(ports[0]), "--advertise-client-urls=" + httpURL(ports[0]),
		"--listen-peer-urls=" + httpURL(ports[1]), "--initial-advertise-peer-urls=" + httpURL(ports[1]),
		"--initial-cluster=one=" + httpURL(ports[1]),
	}, func(ctx context.Context) error {
		return answersOK(ctx, http.DefaultClient, httpURL(ports[0])+"/health", "")
	}); err != nil {
		return err
	}
	if p.api, err = p.program("kube-apiserver", p.port, []string{
		"--etcd-servers=" + httpURL(ports[0]),
		"--bind-address=" + loopbackA, "--secure-port=" + strconv.Itoa(p.port), "--cert-dir=" + p.path("api"),
		"--service-account-issuer=" + issuer, "--service-account-signing-key-file=" + p.path(signingKeyFile), "--service-account-key-file=" + p.path(signingKeyFile),
		"--authorization-mode=RBAC", "--token-auth-file=" + p.path(tokensFile), "--disable-admission-plugins=ServiceAccount",
		// Nothing listens at the addresses of Services here; those of the API server itself would be refused
		// as loopback.
		"--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none",
		"--profiling=false", "--v=0",
	}, p.apiReady); err != nil {
		return err
	}
	every := cmp.Or(o.AutoscaleEvery, 2*time.Second)
	p.controllers, err = p.program("kube-controller-manager", 0, []string{
		"--kubeconfig=" + p.Kubeconfig(), "--controllers=" + strings.Join(controllers, ","), "--leader-elect=false",
		"--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400", "--profiling=false", "--v=0",
		"--horizontal-pod-autoscaler-sync-period=" + every.String(),
	}, func(context.Context) error { return nil })
	return err
}

func (p *Plane) program(name string, port int, args []string, ready func(context.Context) error) (*program, error) {
	log, err := loopback.NewLog()
	if err != nil {
		return nil, err
	}
	return &program{name: name, args: args, port: port, ready: ready, log: log}, nil
}

func (p *Plane) path(name string) string { return filepath.Join(p.dir, name) }

// URL is where the API server listens.
func (p *Plane) URL() string { return "https://" + loopbackA + ":" + strconv.Itoa(p.port) }

// Config is the administrator's, for clients. The caller may change it.
func (p *Plane) Config() *rest.Config { return rest.CopyConfig(p.config) }

// Client is the administrator's.
func (p *Plane) Client() *kubernetes.Clientset { return p.client }

// Kubeconfig is the path of the administrator's kubeconfig.
func (p *Plane) Kubeconfig() string { return p.path("admin.kubeconfig") }

// StopAPI kills the API server and returns when it is gone: connections break, and nobody listens.
func (p *Plane) StopAPI() { p.api.kill() }

// StartAPI starts the API server again in its place, and returns when it is ready.
func (p *Plane) StartAPI(ctx context.Context) error { return p.api.start(ctx) }

// Log is the end of what the programs have said.
func (p *Plane) Log() string {
	var all strings.Builder
	for _, one := range p.programs() {
		_, _ = fmt.Fprintf(&all, "%s said:\n%s\n", one.name, one.log.Tail())
	}
	return all.String()
}

// Close kills all of it and removes its data.
func (p *Plane) Close() {
	for _, one := range p.programs() {
		one.kill()
		one.log.Close()
	}
	_ = os.RemoveAll(p.dir)
}

// programs are those that were planned, the last started first.
func (p *Plane) programs() (all []*program) {
	for _, one := range []*program{p.controllers, p.api, p.etcd} {
		if one != nil {
			all = append(all, one)
		}
	}
	return all
}

// answersOK wants a GET to be answered with 200.
func answersOK(ctx context.Context, client *http.Client, url, token string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Close = true
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return err
}
