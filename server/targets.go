package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/awsclient"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/target"
	"github.com/kinesin-io/kinesin/target/awslambda"
	"github.com/kinesin-io/kinesin/target/httptarget"
	"github.com/kinesin-io/kinesin/task"
)

// RoleTargets calls the targets of lambdas; only together with node.RoleHSC, which serves its workers.
const RoleTargets = "targets"

// allowMax bounds Config.TargetsAllow.
const allowMax = 100

// openTargets makes the role that calls targets; nil if this process has not the role. end closes the
// connections of its calls.
func (s *Server) openTargets(ctx context.Context) (role *target.Role, end func(), err error) {
	if !slices.Contains(s.config.Roles, RoleTargets) {
		return nil, func() {}, nil
	}
	allow, err := prefixesOf(s.config.TargetsAllow)
	if err != nil {
		return nil, nil, err
	}
	var identities []httptarget.Identity
	if s.config.TargetsIdentities != "" {
		if identities, err = httptarget.ReadIdentities(s.config.TargetsIdentities); err != nil {
			return nil, nil, err
		}
	}
	invoke, endInvoking, err := s.openFunctions(ctx)
	if err != nil {
		return nil, nil, err
	}
	calls := httptarget.NewClient(httptarget.Config{
		Guard: &httptarget.Guard{Allow: allow}, Identities: identities, Clock: clock.Real(), Version: s.config.Version, Called: s.node.TargetCalled, Callback: target.CallbackOf,
	})
	return target.New(target.Config{
		Lambdas: s.node.Settings, Server: asServer(s.node.Handler()), Name: "targets@" + cmp.Or(hostName(), "server"), Version: s.config.Version,
		Log: s.config.Log.With(slog.String("role", RoleTargets)), DrainMax: s.config.DrainMax, Open: s.node.TargetOpen, Token: s.node.SealCallback,
		Runners: map[string]func(task.Target) (sdk.Handler, error){
			task.TargetHTTP: func(t task.Target) (sdk.Handler, error) {
				r, err := calls.Runner(t)
				if err != nil {
					return nil, err
				}
				return r.Run, nil
			},
			task.TargetAWSLambda: invoke,
		},
	}), func() { calls.Close(); endInvoking() }, nil
}

// openFunctions returns what makes the runners of functions of AWS Lambda. If functions are named that may be invoked, it reads
// the settings of AWS at once, otherwise runner does so with the first function. end closes the connections.
func (s *Server) openFunctions(ctx context.Context) (runner func(task.Target) (sdk.Handler, error), end func(), err error) {
	var own *awsclient.Clients
	clients := sync.OnceValues(func() (*awsclient.Clients, error) {
		if s.drivers.aws != nil {
			return s.drivers.aws, nil
		}
		var err error
		own, err = awsclient.New(ctx, clock.Real())
		return own, err
	})
	if len(s.config.TargetsFunctions) > 0 {
		if _, err := clients(); err != nil {
			return nil, nil, err
		}
	}
	functions := s.config.functions()
	runner = func(t task.Target) (sdk.Handler, error) {
		if err := functions.Check(t.URL); err != nil {
			return nil, err
		}
		aws, err := clients()
		if err != nil {
			return nil, err
		}
		r := awslambda.New(aws.Lambda, t.URL, t.Async)
		r.Called = s.node.TargetCalled
		return r.Run, nil
	}
	end = func() {
		if own != nil {
			own.Close()
		}
	}
	return runner, end, nil
}

// functions returns which functions may be invoked. A server without authentication trusts who calls as whoever started
// it, whose settings of AWS it has.
func (c *Config) functions() awslambda.Functions {
	if len(c.TargetsFunctions) == 0 && !c.isAuthenticated() {
		return awslambda.Functions{"*"}
	}
	return c.TargetsFunctions
}

// serverCaller is the server itself.
func serverCaller() access.Caller {
	return access.Caller{Identity: access.Identity{Name: access.ServerName, Grants: access.All()}, From: access.ServerName}
}

// asServer makes every call one of the server itself.
func asServer(next http.Handler) http.Handler {
	who := serverCaller()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(access.With(r.Context(), who)))
	})
}

// prefixesOf reads ranges of addresses.
func prefixesOf(texts []string) (all []netip.Prefix, err error) {
	if len(texts) > allowMax {
		return nil, fmt.Errorf("%d ranges of addresses for targets: want at most %d", len(texts), allowMax)
	}
	for _, text := range texts {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		switch {
		case err != nil || p.Addr().Is4In6():
			return nil, fmt.Errorf("targets may have addresses %q: want a range such as 10.1.0.0/16 or fd00::/8", text)
		case p != p.Masked():
			return nil, fmt.Errorf("targets may have addresses %q, which is an address within %v: want the range", text, p.Masked())
		}
		all = append(all, p)
	}
	return all, nil
}

// checkTargets checks what the role that calls targets is given.
func (c Config) checkTargets() error {
	if slices.Contains(c.Roles, RoleTargets) && !slices.Contains(c.Roles, node.RoleHSC) {
		return fmt.Errorf("role %s without role %s: its workers are served by their own process; want both", RoleTargets, node.RoleHSC)
	}
	_, err := prefixesOf(c.TargetsAllow)
	return cmp.Or(err, awslambda.Functions(c.TargetsFunctions).Validate())
}

// checkTarget refuses a target that the role would not call. A name of a host is resolved only when it is called.
func (c Config) checkTarget(t *task.Target) error {
	if t.Kind() == task.TargetAWSLambda {
		return c.functions().Check(t.URL)
	}
	allow, err := prefixesOf(c.TargetsAllow)
	if err != nil {
		return err
	}
	return (&httptarget.Guard{Allow: allow}).Check(t.URL)
}

// runTargets calls targets until ctx ends, then waits for the calls under way, for DrainMax at most.
func (s *Server) runTargets(ctx context.Context) error {
	if s.targets == nil {
		return nil
	}
	defer s.endTargets()
	return s.targets.Run(ctx)
}
