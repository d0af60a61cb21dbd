package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kinesin-io/kinesin/internal/clock"
)

const (
	// startMax is how long Open tries to reach the API server.
	startMax = 30 * time.Second
	// callMax bounds one request, except for the length of a watch.
	callMax = 10 * time.Second

	retryMin = 250 * time.Millisecond
	retryMax = 4 * time.Second
)

// Config is what Open needs. Clock and Log are required, Pod and Namespace too: see Identity.
type Config struct {
	Pod       string // name of the pod that this process runs in
	Namespace string // of the pod
	Clock     clock.Clock
	Log       *slog.Logger
	Hooks     Hooks

	rest *rest.Config // of tests; nil: as client-go finds it
}

// Hooks are told what happened. A nil hook is not called.
type Hooks struct {
	// Members: so many are members now; called at each change.
	Members func(count int)
	// Kept: so many are members though the API server says that they are gone; called when that changes.
	Kept func(count int)
	// Relisted: the pods are listed anew, because the watch is silent or does not agree with the rows.
	Relisted func()
	// Broke: a list or a watch failed, or a watch ended long before its time.
	Broke func()
}

// Identity is the pod's name and namespace out of POD_NAME and POD_NAMESPACE, or ErrNoIdentity. getenv is
// os.Getenv.
func Identity(getenv func(string) string) (pod, namespace string, err error) {
	pod, namespace = getenv("POD_NAME"), getenv("POD_NAMESPACE")
	switch {
	case pod == "" && namespace == "":
		return "", "", fmt.Errorf("%w; neither is set", ErrNoIdentity)
	case pod == "":
		return "", "", fmt.Errorf("%w; POD_NAME is not set", ErrNoIdentity)
	case namespace == "":
		return "", "", fmt.Errorf("%w; POD_NAMESPACE is not set", ErrNoIdentity)
	}
	if wrong := validation.IsDNS1123Subdomain(pod); len(wrong) > 0 {
		return "", "", fmt.Errorf("%w; POD_NAME is %q, which no pod can be called: %s", ErrNoIdentity, pod, wrong[0])
	}
	if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
		return "", "", fmt.Errorf("%w; POD_NAMESPACE is %q, which no namespace can be called: %s", ErrNoIdentity, namespace, wrong[0])
	}
	return pod, namespace, nil
}

// Cluster is the way to the API server, and what was found there about this process's own pod.
type Cluster struct {
	config     Config
	core, apps *rest.RESTClient

	self     uid                   // of our pod
	maker    metav1.OwnerReference // the controller of our pod
	owner    uid                   // of the Deployment, or of the maker
	byMaker  bool                  // pods are told by their maker alone: it is no ReplicaSet
	name     string                // kind and name of the owner
	selector string                // of the pods and ReplicaSets of the fleet; empty: all
}

// Open finds this process's pod, its Deployment, and whether it may list and watch what it has to. It tries
// for up to 30 s while the API server cannot be reached. Errors wrap those of this package.
func Open(ctx context.Context, config Config) (*Cluster, error) {
	if config.Pod == "" || config.Namespace == "" {
		return nil, ErrNoIdentity
	}
	if config.rest == nil {
		found, err := findCluster()
		if err != nil {
			return nil, err
		}
		config.rest = found
	}
	core, apps, err := clientsOf(config.rest)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCluster, err)
	}
	c := &Cluster{config: config, core: core, apps: apps}
	if err := c.settle(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// findCluster asks for the configuration of the pod, and else for KUBECONFIG by client-go's own rules.
func findCluster() (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if err == nil {
		return config, nil
	}
	if !errors.Is(err, rest.ErrNotInCluster) {
		return nil, fmt.Errorf("%w: %w", ErrNoCluster, err)
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, ErrNoCluster
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCluster, err)
	}
	return config, nil
}

// settle tries until all is found or will not be.
func (c *Cluster) settle(ctx context.Context) error {
	began, pause := clock.Mono(c.config.Clock), retryMin
	for {
		err := c.look(ctx)
		if err == nil || Lasting(err) {
			return err
		}
		if ctx.Err() != nil || clock.Mono(c.config.Clock)-began >= startMax {
			return fmt.Errorf("%w at %s (tried for %s): %w", ErrUnreachable, c.config.rest.Host, clock.Mono(c.config.Clock)-began, err)
		}
		c.config.Log.WarnContext(ctx, "the Kubernetes API server does not answer", slog.String("server", c.config.rest.Host), slog.Any("error", err))
		if clock.Sleep(ctx, c.config.Clock, pause) != nil {
			return fmt.Errorf("%w at %s: %w", ErrUnreachable, c.config.rest.Host, err)
		}
		pause = min(2*pause, retryMax)
	}
}

// look finds our pod and its owner, and asks for all that will be asked for later.
func (c *Cluster) look(ctx context.Context) error {
	ctx, done := clock.Within(ctx, c.config.Clock, callMax)
	defer done()
	var own pod
	if err := c.get(ctx, c.core, resourcePods, c.config.Pod, &own); err != nil {
		return err
	}
	c.self, c.maker = own.UID, controllerOf(&own.ObjectMeta)
	switch {
	case c.maker.UID == "":
		return fmt.Errorf("%w; the pod is %s in namespace %s", ErrNoController, c.config.Pod, c.config.Namespace)
	case c.maker.Kind == "ReplicaSet":
		if err := c.lookAtSet(ctx); err != nil {
			return err
		}
	default:
		c.owner, c.byMaker, c.name = c.maker.UID, true, c.maker.Kind+"/"+c.maker.Name
	}
	return c.tryAll(ctx)
}

func (c *Cluster) lookAtSet(ctx context.Context) (err error) {
	var set replicaSet
	if err = c.get(ctx, c.apps, resourceReplicaSets, c.maker.Name, &set); err != nil {
		return err
	}
	c.owner, c.name = set.UID, "ReplicaSet/"+set.Name
	if owner := controllerOf(&set.ObjectMeta); owner.UID != "" {
		c.owner, c.name = owner.UID, owner.Kind+"/"+owner.Name
	}
	if c.selector, err = set.fleetSelector(); err != nil {
		return fmt.Errorf("selector of %s %s: %w", resourceReplicaSets, set.Name, err)
	}
	return nil
}

func (c *Cluster) get(ctx context.Context, client *rest.RESTClient, resource, name string, into runtime.Object) error {
	err := client.Get().Namespace(c.config.Namespace).Resource(resource).Name(name).Do(ctx).Into(into)
	return request{"get", resource, c.config.Namespace, name}.explain(err)
}

// tryAll lists one of each and opens the watches, so that a right that is missing is told at the start.
func (c *Cluster) tryAll(ctx context.Context) error {
	for _, s := range c.feeds() {
		if err := s.try(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Pod is the name of this process's pod: its host in the lease rows, and its name as a member.
func (c *Cluster) Pod() string { return c.config.Pod }

// Group is what the fleet is called in the lease rows: the same in all of its pods, and in no other fleet of
// the cluster.
func (c *Cluster) Group() string { return c.config.Namespace + "/" + c.name }
