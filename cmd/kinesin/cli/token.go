package cli

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/access/tokens"
	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) tokenCommand() *cobra.Command {
	n := a.tokens()
	return group(&cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke tokens of callers",
		Long: `A token belongs to an identity, which may do what its grants say. Every server of an installation accepts it. Servers keep a hash
of it only.

To manage tokens one needs admin:*. docs/security.md describes verbs, and identities without tokens.`,
	}, a.tokenCreateCommand(),
		n.listCommand(a, &cobra.Command{Short: "List the tokens that were made, without their secrets"}, nil),
		n.action(a, &cobra.Command{
			Use:   "revoke",
			Short: "End the token of an identity",
			Long: `Ends the token of an identity. Within 5 s every server refuses calls with it and ends its streams. A worker's lease gets no more
heartbeats then; its tasks start elsewhere when the lease is over, since the worker may still run them.`,
		}, func(ctx context.Context, _ *sdk.Client, name string) (o tokenObject, err error) {
			return o, a.withAccess(func(access kinesinv1connect.AccessServiceClient) error {
				r, err := access.RevokeToken(ctx, &kinesinv1.RevokeTokenRequest{Name: name})
				if err == nil {
					o = tokenObjectOf(r.GetToken())
				}
				return err
			})
		}))
}

// callingAccess completes a command that calls the AccessService.
func (a *app) callingAccess(c *cobra.Command, act func(ctx context.Context, access kinesinv1connect.AccessServiceClient, args []string) error) *cobra.Command {
	return a.calling(c, func(ctx context.Context, _ *sdk.Client, args []string) error {
		return a.withAccess(func(access kinesinv1connect.AccessServiceClient) error { return act(ctx, access, args) })
	})
}

// withAccess calls f with a client of the AccessService.
func (a *app) withAccess(f func(access kinesinv1connect.AccessServiceClient) error) error {
	clients, err := a.connections()
	if err != nil {
		return err
	}
	defer clients.CloseIdle()
	err = f(kinesinv1connect.NewAccessServiceClient(clients.Calls, clients.Base, api.ClientOptions()...))
	if _, called := errors.AsType[*connect.Error](err); called {
		return api.FromWire(err)
	}
	return err
}

// tokenObject is a token in JSON.
type tokenObject struct {
	Name      string   `json:"name"`
	State     string   `json:"state"`
	Grants    []string `json:"grants"`
	Created   string   `json:"created"`
	CreatedBy string   `json:"created_by"`
	Expires   string   `json:"expires,omitempty"`
	Revoked   string   `json:"revoked,omitempty"`
	Token     string   `json:"token,omitempty"` // of create only
}

func tokenObjectOf(t *kinesinv1.Token) tokenObject {
	o := tokenObject{
		Name: t.GetName(), State: "active", Grants: t.GetGrants(), Created: microsText(t.GetCreated()), CreatedBy: t.GetCreatedBy(),
		Expires: microsText(t.GetExpires()), Revoked: microsText(t.GetRevoked()),
	}
	switch {
	case t.GetRevoked() != 0:
		o.State = "revoked"
	case t.GetExpires() != 0 && time.Now().UnixMicro() >= t.GetExpires():
		o.State = "expired"
	}
	return o
}

// microsText returns a time of the wire; empty for 0.
func microsText(micros int64) string {
	if micros == 0 {
		return ""
	}
	return timeText(time.UnixMicro(micros))
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var grants []string
	var lifetime time.Duration
	c := &cobra.Command{
		Use:   "create NAME --grant VERB:LAMBDA-PATTERN …",
		Short: "Make an identity and its token, and print the token",
		Long: `Makes an identity and prints its token, which nobody can show again. Callers send it with --token-file or sdk.WithTokenFile.

A grant is VERB:LAMBDA-PATTERN, or VERB:LAMBDA-PATTERN:COLLECTION-PATTERN; a pattern is a name, or the beginning of names and a star.
Verbs: ` + access.VerbNames() + `; * for all. One can grant only what one may do oneself.

A name exists once: revoke the token of a name before another one is made for it.`,
		Example: `  kinesin token create mail-team --grant 'schedule:mail-*' --grant 'read:mail-*' >mail.token
  kinesin token create worker-7 --grant execute:mail-send --expires 720h
  kinesin token create prometheus --grant metrics`,
		Args: one("NAME"),
	}
	c.Flags().StringArrayVar(&grants, "grant", nil, "`GRANT` of the identity, such as 'schedule:mail-*'; may be repeated")
	c.Flags().Var(durationValue{d: &lifetime, min: tokens.LifetimeMin}, "expires", "how long the token is accepted; for ever when not set")
	return a.callingAccess(c, func(ctx context.Context, client kinesinv1connect.AccessServiceClient, args []string) error {
		if err := access.CheckName(args[0]); err != nil {
			return usagef("%v", err)
		}
		if _, err := access.ParseGrants(grants); err != nil {
			return usagef("--grant: %v", err)
		}
		r, err := client.CreateToken(ctx, &kinesinv1.CreateTokenRequest{Name: args[0], Grants: grants, Lifetime: lifetime.Microseconds()})
		if err != nil {
			return err
		}
		o := tokenObjectOf(r.GetToken())
		o.Token = r.GetSecret()
		return a.print(o, "%s", r.GetSecret())
	})
}
