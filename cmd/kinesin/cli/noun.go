package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

// noun is a row of the table of nouns in nouns.go: a kind of thing, and what the commands about it call, print and
// complete. The commands list, get and delete are made of it.
type noun[T any] struct {
	word  string          // what results call one: gate
	arg   string          // what names one on the command line: NAME, ID or LAMBDA
	about func(*T) string // is shown beside the name when a shell completes it
	none  string          // is noted where the table would be empty

	titles []string          // of the columns of the table that list prints; the first one has the name
	wide   []string          // of the columns that -o wide adds
	cells  func(*T) []string // of all columns; an empty one is printed as "-"

	object func(*T) any             // the form in JSON
	whole  func(*T) any             // that of get, if it has more
	print  func(a *app, v *T) error // what get prints as text; a line for each column when nil
	text   func(*T) string          // what an action prints as text

	list   func(ctx context.Context, k *sdk.Client) ([]T, error)
	get    func(ctx context.Context, k *sdk.Client, name string) (T, error)
	delete func(ctx context.Context, k *sdk.Client, name string) error
}

// Words for what became of something, the same in all commands.
const (
	outcomeDeleted = "deleted"
	outcomeRevoked = "revoked"
)

// doneObject is the result of a command that leaves nothing to show, in JSON.
type doneObject struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
	Dropped *int64 `json:"dropped,omitempty"` // tasks of a lambda that was deleted
}

// listCommand completes a command that lists things. list reads them as the flags of the command say; nil: all.
func (n *noun[T]) listCommand(a *app, c *cobra.Command, list func(ctx context.Context, k *sdk.Client, args []string) ([]T, error)) *cobra.Command {
	if c.Use == "" {
		c.Use = "list"
	}
	if c.Args == nil {
		c.Args = cobra.NoArgs
	}
	if list == nil {
		list = func(ctx context.Context, k *sdk.Client, _ []string) ([]T, error) { return n.list(ctx, k) }
	}
	return a.watching(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		all, err := list(ctx, k, args)
		if err != nil {
			return err
		}
		return n.printAll(a, all)
	})
}

// getCommand completes a command that shows one thing.
func (n *noun[T]) getCommand(a *app, c *cobra.Command) *cobra.Command {
	n.ofOne(a, c, "get")
	c.Aliases = []string{"show"}
	return a.watching(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		v, err := n.get(ctx, k, args[0])
		if err != nil {
			return err
		}
		return n.show(a, &v)
	})
}

// deleteCommand completes a command that deletes one thing.
func (n *noun[T]) deleteCommand(a *app, c *cobra.Command) *cobra.Command {
	n.ofOne(a, c, "delete")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		if err := n.delete(ctx, k, args[0]); err != nil {
			return err
		}
		return a.print(doneObject{Name: args[0], Outcome: outcomeDeleted}, "%s %s %s", outcomeDeleted, n.word, args[0])
	})
}

// action completes a command that changes one thing, and prints what has become of it.
func (n *noun[T]) action(a *app, c *cobra.Command, act func(ctx context.Context, k *sdk.Client, name string) (T, error)) *cobra.Command {
	n.ofOne(a, c, c.Name())
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		v, err := act(ctx, k, args[0])
		switch {
		case err != nil:
			return err
		case a.output == formatName:
			return a.printLine(n.name(&v))
		}
		return a.print(n.object(&v), "%s", n.text(&v))
	})
}

// ofOne lets a command take the name of one thing, unless it says otherwise.
func (n *noun[T]) ofOne(a *app, c *cobra.Command, verb string) {
	if c.Use == "" || c.Use == verb {
		c.Use = verb + " " + n.arg
	}
	if c.Args == nil {
		c.Args = one(n.arg)
	}
	if c.ValidArgsFunction == nil && n.list != nil {
		c.ValidArgsFunction = n.complete(a)
	}
}

func (n *noun[T]) name(v *T) string { return n.cells(v)[0] }

// columns returns the titles of the columns that the format of the output has.
func (n *noun[T]) columns(a *app) []string {
	if a.output == formatWide {
		return slices.Concat(n.titles, n.wide)
	}
	return n.titles
}

// show prints a thing as get does.
func (n *noun[T]) show(a *app, v *T) error {
	switch {
	case a.json() && n.whole != nil:
		return printJSON(a.Stdout, n.whole(v))
	case a.json():
		return printJSON(a.Stdout, n.object(v))
	case a.output == formatName:
		return a.printLine(n.name(v))
	case n.print != nil:
		return n.print(a, v)
	}
	t, cells := newTable(a.Stdout), n.cells(v)
	for i, title := range n.columns(a) {
		t.fact(strings.ToLower(title), cells[i])
	}
	return t.Flush()
}

// printAll prints things as list does.
func (n *noun[T]) printAll(a *app, all []T) error {
	switch {
	case a.json():
		return printJSON(a.Stdout, objectsOf(all, n.object))
	case len(all) == 0:
		if n.none != "" {
			a.note("%s", n.none)
		}
		return nil
	case a.output == formatName:
		for i := range all {
			if err := a.printLine(n.name(&all[i])); err != nil {
				return err
			}
		}
		return nil
	}
	t, titles := newTable(a.Stdout), n.columns(a)
	t.row(titles...)
	for i := range all {
		cells := n.cells(&all[i])[:len(titles)]
		for j := range cells {
			cells[j] = dash(cells[j])
		}
		t.row(cells...)
	}
	return t.Flush()
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// complete completes the only argument of a command, which names a thing.
func (n *noun[T]) complete(a *app) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) (names []cobra.Completion, d cobra.ShellCompDirective) {
		if len(args) == 0 {
			names = n.names(a, cmd, begun)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// names asks a server for the names that begin with a text.
func (n *noun[T]) names(a *app, cmd *cobra.Command, begun string) (names []cobra.Completion) {
	a.completing(cmd, func(ctx context.Context, k *sdk.Client) error {
		all, err := n.list(ctx, k)
		for i := range all {
			name := n.name(&all[i])
			switch {
			case !strings.HasPrefix(name, begun):
			case n.about == nil:
				names = append(names, name)
			default:
				names = append(names, cobra.CompletionWithDesc(name, n.about(&all[i])))
			}
		}
		return err
	})
	return names
}

// optionalLambda accepts at most one argument, a lambda.
func optionalLambda(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("%q is one argument too many: want at most one LAMBDA", args[1])
	}
	return nil
}

// first returns the first argument; empty if there is none.
func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
