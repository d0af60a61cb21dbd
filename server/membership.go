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

// Ways in which the processes with the scheduler's role find each other.
const (
	// MembershipStore uses lease rows in the store.
	MembershipStore = "store"
	// MembershipKubernetes uses the pods of this pod's Deployment, and lease rows.
	MembershipKubernetes = "kubernetes"
	// MembershipStatic uses a list that is the same for all of them.
	MembershipStatic = "static"
)

// Memberships lists the ways in which processes can find each other.
func Memberships() []string {
	return []string{MembershipStore, MembershipKubernetes, MembershipStatic}
}

// membersMax bounds a list of members.
const membersMax = 1000

// memberForm matches the valid names of members, which include those of hosts and pods.
var memberForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`)

// membershipOrDefault returns an empty string for a process that is alone over its store.
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
		return errors.New("a list of members and a member name are for membership static: add --membership static, or leave --members and --member-name out")
	}
	if c.Membership != "" && c.Store == StorePebble {
		return fmt.Errorf("membership %s with store pebble: only one process can use that store; leave --membership out, or share a store with --store dynamodb",
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
		refuse("the members are missing: list them all with --members A,B,C, the same list for each of them")
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
		refuse("this process's own name is missing: name one of the members with --member-name")
	case !slices.Contains(c.Members, c.MemberName):
		refuse("member name %q is none of the members: want one of %s", c.MemberName, strings.Join(c.Members, ", "))
	}
	return errors.Join(errs...)
}

// schedules reports whether this process has the role whose processes share the partitions.
func (c Config) schedules() bool { return slices.Contains(c.Roles, node.RoleScheduler) }

// openCluster connects to the Kubernetes API server; nil if the pods do not tell the members.
func (s *Server) openCluster(ctx context.Context) (*kube.Cluster, error) {
	if s.config.Membership != MembershipKubernetes || !s.config.schedules() {
		return nil, nil //nolint:nilnil // there is none
	}
	found, err := kube.Open(ctx, kube.Config{
		Pod: s.config.PodName, Namespace: s.config.PodNamespace, Clock: clock.Real(), Log: s.config.Log, Hooks: kubeHooks(s.metrics),
	})
	if err != nil {
		return nil, fmt.Errorf("membership kubernetes: %w", err)
	}
	return found, nil
}

// join configures how the node finds the processes that share its partitions; by default by lease rows.
func (s *Server) join(c *node.Config, pods *kube.Cluster) {
	switch {
	case s.config.Store == StorePebble:
		c.Membership = partition.Static("embedded") // no other process can use the directory
	case pods != nil:
		c.Name, c.Group = pods.Pod(), pods.Group()
		c.Over = func(rows *fleet.Membership) node.Membership { return pods.Over(rows) }
	case s.config.Membership == MembershipStatic && s.config.schedules():
		c.Name, c.Shared = s.config.MemberName, true
		c.Membership = partition.Static(s.config.MemberName, s.config.Members...)
	}
}
