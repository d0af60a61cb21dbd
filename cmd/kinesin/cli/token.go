package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/access/tokens"
	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) tokenCommand() *cobra.Command {
	n := a.tokens()
	return group(&cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke tokens of callers",
		Long: `A token belongs to an identity, which may do what its grants say (docs/how-to/access.md). Every server of an installation
accepts it, and keeps only a hash of it. Managing tokens needs admin:*.`,
	}, a.tokenCreateCommand(),
		n.listCommand(a, &cobra.Command{Short: "List the tokens that were made, without their secrets"}, nil),
		n.action(a, &cobra.Command{
			Use:   "revoke",
			Short: "End the token of an identity",
			Long: `Ends the token of an identity. Within 5 s every server refuses it and ends its streams; the tasks of its workers start elsewhere
when their lease is over.`,
		}, func(ctx context.Context, c *calls, name string) (*kinesinv1.Token, error) {
			r, err := ask(ctx, c, "revoke token", c.Access.RevokeToken, &kinesinv1.RevokeTokenRequest{Name: name})
			return r.GetToken(), err
		}))
}

// tokenState says whether servers accept a token.
func tokenState(t *kinesinv1.Token) string {
	switch {
	case t.GetRevoked() != 0:
		return outcomeRevoked
	case t.GetExpires() != 0 && time.Now().UnixMicro() >= t.GetExpires():
		return "expired"
	}
	return "active"
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var grants []string
	var lifetime time.Duration
	c := &cobra.Command{
		Use:   "create NAME --grant VERB:LAMBDA-PATTERN …",
		Short: "Make an identity and its token, and print the token",
		Long: `Makes an identity and prints its token, which nobody can show again. Callers send it with --token-file or sdk.WithTokenFile.

A grant is VERB:LAMBDA-PATTERN, or VERB:LAMBDA-PATTERN:COLLECTION-PATTERN; a pattern is a name, or the beginning of names and a star.
Verbs: ` + access.VerbNames() + `; * for all. One can grant only what one may do oneself.`,
		Example: `  kinesin token create mail-team --grant 'schedule:mail-*' --grant 'read:mail-*' >mail.token
  kinesin token create worker-7 --grant execute:mail-send --expires 720h
  kinesin token create prometheus --grant metrics`,
		Args: one("NAME"),
	}
	c.Flags().StringArrayVar(&grants, "grant", nil, "`GRANT` of the identity, such as 'schedule:mail-*'; may be repeated")
	c.Flags().Var(durationValue{d: &lifetime, min: tokens.LifetimeMin}, "expires", "how long the token is accepted; for ever when not set")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		if err := access.CheckName(args[0]); err != nil {
			return usagef("%v", err)
		}
		if _, err := access.ParseGrants(grants); err != nil {
			return usagef("--grant: %v", err)
		}
		c := over(k)
		r, err := ask(ctx, c, "create token", c.Access.CreateToken, &kinesinv1.CreateTokenRequest{Name: args[0], Grants: grants, Lifetime: lifetime.Microseconds()})
		if err != nil {
			return err
		}
		return a.print(r, "%s", r.GetSecret())
	})
}
