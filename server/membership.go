package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/partition/kube"
)

// How the processes with the scheduler's role know each other.
const (
	// MembershipStore is by lease rows in the store that they share.
	MembershipStore = "store"
	// MembershipKubernetes is by the pods of the Deployment that this process's pod belongs to, and by lease
	// rows.
	MembershipKubernetes = "kubernetes"
	// MembershipStatic is by a list that is the same for all of them.
	MembershipStatic = "static"
)

// Memberships lists how processes can know each other.
func Memberships() []string {
	return []string{MembershipStore, MembershipKubernetes, MembershipStatic}
}

// membersMax bounds a list of members.
const membersMax = 1000

// memberForm is what a member may be called: what a host or a pod may be called will do.
var memberForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`)

// membershipOrDefault is empty for a process that is alone over its store.
func (c Config) membershipOrDefault() string {
	if c.Store == StorePebble {
		return c.Membership
	}
	return cmp.Or(c.Membership, MembershipStore)
}

func (c Config) checkMembership() error {
	if c.Membership != "" && !slices.Contains(Memberships(), c.Membership) {
		return fmt.Errorf("unknown membership %q: want %s", c.Membership, strings.Join(Memberships(), ", "))
	}
	if c.Membership != MembershipStatic && (len(c.Members) > 0 || c.MemberName != "") {
		return errors.New("a list of members, or a member's name, is for membership static: add --membership static, or leave --members and --member-name out")
	}
	if c.Membership != "" && c.Store == StorePebble {
		return fmt.Errorf("membership %s with store pebble: one process alone has that store; leave --membership out, or share a store with --store dynamodb",
			c.Membership)
	}
	if c.Membership == MembershipStatic {
		return c.checkMembers()
	}
	return nil
}

func (c Config) checkMembers() error {
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("membership static: "+format, args...))
	}
	switch {
	case len(c.Members) == 0:
		refuse("the members are missing: name them all with --members A,B,C, the same list for each of them")
	case len(c.Members) > membersMax:
		refuse("%d members: want 1 to %d", len(c.Members), membersMax)
		return errors.Join(errs...)
	}
	for i, name := range c.Members {
		if !memberForm.MatchString(name) {
			refuse("member %q: want 1 to 253 characters of A-Z, a-z, 0-9, '.', '_' and '-', the first and the last a letter or digit", name)
		}
		if slices.Contains(c.Members[:i], name) {
			refuse("member %s is named twice", name)
		}
	}
	switch {
	case c.MemberName == "":
		refuse("this process's own name is missing: say with --member-name which one of the members it is")
	case !slices.Contains(c.Members, c.MemberName):
		refuse("member name %q is none of the members: want one of %s", c.MemberName, strings.Join(c.Members, ", "))
	}
	return errors.Join(errs...)
}

// firesTasks reports whether this process has the role whose processes share the partitions.
func (c Config) firesTasks() bool { return slices.Contains(c.Roles, node.RoleScheduler) }

// cluster is where this process's pod is, and those it shares the partitions with.
type cluster struct{ *kube.Cluster }

// over makes the membership by pods out of that by lease rows.
func (c *cluster) over(rows *fleet.Membership) node.Membership { return c.Over(rows) }

// openCluster finds them; nil where pods do not tell.
func (s *Server) openCluster(ctx context.Context) (*cluster, error) {
	if s.config.Membership != MembershipKubernetes || !s.config.firesTasks() {
		return nil, nil //nolint:nilnil // there is none to ask
	}
	found, err := kube.Open(ctx, kube.Config{
		Pod: s.config.PodName, Namespace: s.config.PodNamespace, Clock: clock.Real(), Log: s.config.Log, Hooks: kubeHooks(s.metrics.Registerer()),
	})
	if err != nil {
		return nil, fmt.Errorf("membership kubernetes: %w", err)
	}
	return &cluster{found}, nil
}

// join says how the node gets to know the others that share its partitions: without anything, by lease rows.
// A process without the scheduler's role is none of them.
func (s *Server) join(c *node.Config, pods *cluster) {
	switch {
	case s.config.Store == StorePebble:
		c.Membership = partition.Static("embedded") // nobody else can have the directory
	case pods != nil:
		c.Name, c.Group, c.Over = pods.Pod(), pods.Group(), pods.over
	case s.config.Membership == MembershipStatic && s.config.firesTasks():
		c.Name, c.Shared = s.config.MemberName, true
		c.Membership = partition.Static(s.config.MemberName, s.config.Members...)
	}
}
