package cli

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/internal/access/policy"
	"github.com/kinesin-io/kinesin/internal/livefile"
)

func (a *app) policyCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "policy",
		Short: "Check a file of identities and grants",
	}, a.policyCheckCommand())
}

// policyObject is an identity of a policy in JSON.
type policyObject struct {
	Name   string   `json:"name"`
	Grants []string `json:"grants"`
}

func (a *app) policyCheckCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Check the file for serve --policy, and list its identities",
		Long: `Reads a file as 'kinesin serve --policy' does, and lists the identities and what each may do. It calls no server. Exit 1 when
the file is refused; each line of the error is one thing that is wrong.`,
		Example: `  kinesin policy check policy.yaml`,
		Args:    one("FILE"),
	}
	return a.acting(c, func(_ context.Context, args []string) error {
		content, err := livefile.Read(args[0], policy.FileBytesMax)
		if err != nil {
			return err
		}
		p, err := policy.Parse(content)
		if err != nil {
			return err
		}
		return a.printPolicy(p)
	})
}

func (a *app) printPolicy(p *policy.Policy) error {
	all := []*policyObject{}
	for _, id := range p.Identities() {
		all = append(all, &policyObject{id.Name, id.Grants.Strings()})
	}
	n := noun[*policyObject]{
		none:   "the policy has no identities: a server with it accepts only tokens that `kinesin token create` made",
		titles: []string{"IDENTITY", "MAY"},
		cells: func(o *policyObject) []string {
			return []string{o.Name, cmp.Or(strings.Join(o.Grants, " "), "nothing")}
		},
	}
	return n.printAll(a, all, all)
}
