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

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
)

const (
	// startMax is how long Open tries to reach the API server.
	startMax = 30 * time.Second
	// callMax bounds one request, except for the length of a watch.
	callMax = 10 * time.Second
)

// openRetry paces the tries of Open.
var openRetry = backoff.Policy{Min: 250 * time.Millisecond, Max: 4 * time.Second}

// Config configures Open. All but Hooks is required.
type Config struct {
	Pod       string // name of the pod that this process runs in
	Namespace string // of the pod
	Clock     clock.Clock
	Log       *slog.Logger
	Hooks     Hooks

	rest *rest.Config // for tests; nil: client-go finds it
}

// Hooks are called when something happens. A nil hook is not called.
type Hooks struct {
	// Relisted reports that the pods are listed again, because the watch is silent or disagrees with the
	// rows.
	Relisted func()
	// Broke reports that a list or a watch failed, or that a watch ended long before its time.
	Broke func()
}

// checkIdentity checks that the pod and its namespace, from POD_NAME and POD_NAMESPACE, can exist.
func checkIdentity(pod, namespace string) error {
	switch {
	case pod == "" && namespace == "":
		return fmt.Errorf("%w; neither is set", ErrNoIdentity)
	case pod == "":
		return fmt.Errorf("%w; POD_NAME is not set", ErrNoIdentity)
	case namespace == "":
		return fmt.Errorf("%w; POD_NAMESPACE is not set", ErrNoIdentity)
	}
	if wrong := validation.IsDNS1123Subdomain(pod); len(wrong) > 0 {
		return fmt.Errorf("%w; POD_NAME is %q, which is no valid pod name: %s", ErrNoIdentity, pod, wrong[0])
	}
	if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
		return fmt.Errorf("%w; POD_NAMESPACE is %q, which is no valid namespace: %s", ErrNoIdentity, namespace, wrong[0])
	}
	return nil
}

// Cluster is a connection to the API server, and what Open found there about this process's own pod.
type Cluster struct {
	config     Config
	core, apps *rest.RESTClient

	self     uid                   // of our pod
	maker    metav1.OwnerReference // the controller of our pod
	owner    uid                   // of the Deployment, or of the maker
	byMaker  bool                  // the maker is no ReplicaSet: it alone identifies the pods of the fleet
	name     string                // kind and name of the owner
	selector string                // of the fleet's pods and ReplicaSets; empty: all
}

// Open finds this process's pod and its Deployment, and checks that it may list and watch what it needs. It
// retries for up to 30 s while the API server cannot be reached. Errors wrap those of this package.
func Open(ctx context.Context, config Config) (*Cluster, error) {
	if err := checkIdentity(config.Pod, config.Namespace); err != nil {
		return nil, err
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
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// findCluster returns the configuration of the pod, or else of KUBECONFIG by the rules of client-go.
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

// connect tries look until it succeeds or fails for good.
func (c *Cluster) connect(ctx context.Context) error {
	began := clock.Mono(c.config.Clock)
	for failures := 1; ; failures++ {
		err := c.look(ctx)
		if err == nil || Lasting(err) {
			return err
		}
		tried := clock.Mono(c.config.Clock) - began
		if ctx.Err() == nil && tried < startMax {
			c.config.Log.WarnContext(ctx, "Kubernetes API server unreachable; retrying", slog.String("server", c.config.rest.Host), slog.Any("error", err))
			if openRetry.Sleep(ctx, c.config.Clock, failures) == nil {
				continue
			}
		}
		return fmt.Errorf("%w at %s (tried for %s): %w", ErrUnreachable, c.config.rest.Host, tried, err)
	}
}

// look finds our pod and its owner, and tries every request that will be needed later.
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
	for _, f := range c.feeds() { // so that a missing permission is reported at the start
		if err := f.try(ctx); err != nil {
			return err
		}
	}
	return nil
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

// Pod returns the name of this process's pod: its host in the lease rows, and its name as a member.
func (c *Cluster) Pod() string { return c.config.Pod }

// Group returns the name of the fleet in the lease rows: the same in all of its pods, and unique in the
// cluster.
func (c *Cluster) Group() string { return c.config.Namespace + "/" + c.name }
