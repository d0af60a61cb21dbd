package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/sdk"
)

// calls are the calls to a server that package sdk does not have, over the connections of its client.
type calls = sdkconfig.Calls

// ask makes one call with the timeout and the retries of the client.
func ask[Req, Res any](ctx context.Context, c *calls, what string, f func(context.Context, *Req) (*Res, error), request *Req) (*Res, error) {
	return sdkconfig.Ask(ctx, c, what, 0, f, request)
}

// askSet is ask for what reads a set of tasks, which takes longer.
func askSet[Req, Res any](ctx context.Context, c *calls, what string, f func(context.Context, *Req) (*Res, error), request *Req) (*Res, error) {
	return sdkconfig.Ask(ctx, c, what, sdkconfig.SetTimeout, f, request)
}

// over returns the calls of a client.
func over(k *sdk.Client) *calls {
	c := sdkconfig.CallsOf(k)
	return &c
}

// noun is a row of the table of nouns in nouns.go: a kind of thing, which T points to, and what the commands about it
// call, print and complete. The commands list, get and delete are made of it. With -o json they print what HTTP answers.
type noun[T any] struct {
	word  string         // what results call one: gate
	arg   string         // what names one on the command line: NAME, ID or LAMBDA
	about func(T) string // is shown beside the name when a shell completes it
	none  string         // is noted where the table would be empty

	titles []string         // of the columns of the table that list prints; the first one has the name
	wide   []string         // of the columns that -o wide adds
	cells  func(T) []string // of all columns; an empty one is printed as "-"

	print func(a *app, v T) error // what get prints as text; a line for each column when nil
	text  func(T) string          // what an action prints as text

	list   func(ctx context.Context, c *calls) (proto.Message, error) // an answer with a list of T
	get    func(ctx context.Context, c *calls, name string) (T, error)
	delete func(ctx context.Context, c *calls, name string) (proto.Message, error)
}

// Words for what became of something, the same in all commands.
const (
	outcomeDeleted = "deleted"
	outcomeRevoked = "revoked"
)

// itemsOf returns the messages of a type that are in the lists of an answer.
func itemsOf[T any](answer proto.Message) (all []T) {
	m := answer.ProtoReflect()
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if !f.IsList() || f.Message() == nil {
			continue
		}
		for j := range m.Get(f).List().Len() {
			if v, is := m.Get(f).List().Get(j).Message().Interface().(T); is {
				all = append(all, v)
			}
		}
	}
	return all
}

// listCommand completes a command that lists things. list reads them as the flags of the command say; nil: all.
func (n *noun[T]) listCommand(a *app, c *cobra.Command, list func(ctx context.Context, c *calls, args []string) (proto.Message, error)) *cobra.Command {
	if c.Use == "" {
		c.Use = "list"
	}
	if c.Args == nil {
		c.Args = cobra.NoArgs
	}
	if list == nil {
		list = func(ctx context.Context, c *calls, _ []string) (proto.Message, error) { return n.list(ctx, c) }
	}
	return a.watching(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		answer, err := list(ctx, over(k), args)
		if err != nil {
			return err
		}
		return n.printAll(a, answer, itemsOf[T](answer))
	})
}

// getCommand completes a command that shows one thing.
func (n *noun[T]) getCommand(a *app, c *cobra.Command) *cobra.Command {
	n.ofOne(a, c, "get")
	c.Aliases = []string{"show"}
	return a.watching(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		v, err := n.get(ctx, over(k), args[0])
		if err != nil {
			return err
		}
		return n.show(a, v)
	})
}

// deleteCommand completes a command that deletes one thing.
func (n *noun[T]) deleteCommand(a *app, c *cobra.Command) *cobra.Command {
	n.ofOne(a, c, "delete")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		answer, err := n.delete(ctx, over(k), args[0])
		if err != nil {
			return err
		}
		return a.print(answer, "%s %s %s", outcomeDeleted, n.word, args[0])
	})
}

// action completes a command that changes one thing, and prints what has become of it.
func (n *noun[T]) action(a *app, c *cobra.Command, act func(ctx context.Context, c *calls, name string) (T, error)) *cobra.Command {
	n.ofOne(a, c, c.Name())
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		v, err := act(ctx, over(k), args[0])
		switch {
		case err != nil:
			return err
		case a.output == formatName:
			return a.printLine(n.name(v))
		}
		return a.print(v, "%s", n.text(v))
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

func (n *noun[T]) name(v T) string { return n.cells(v)[0] }

// columns returns the titles of the columns that the format of the output has.
func (n *noun[T]) columns(a *app) []string {
	if a.output == formatWide {
		return slices.Concat(n.titles, n.wide)
	}
	return n.titles
}

// show prints a thing as get does.
func (n *noun[T]) show(a *app, v T) error {
	switch {
	case a.json():
		return printJSON(a.Stdout, v)
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

// printAll prints things as list does: with -o json the answer that has them.
func (n *noun[T]) printAll(a *app, answer any, all []T) error {
	switch {
	case a.json():
		return printJSON(a.Stdout, answer)
	case len(all) == 0:
		if n.none != "" {
			a.note("%s", n.none)
		}
		return nil
	case a.output == formatName:
		for _, v := range all {
			if err := a.printLine(n.name(v)); err != nil {
				return err
			}
		}
		return nil
	}
	t, titles := newTable(a.Stdout), n.columns(a)
	t.row(titles...)
	for _, v := range all {
		cells := n.cells(v)[:len(titles)]
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
		answer, err := n.list(ctx, over(k))
		if err != nil {
			return err
		}
		for _, v := range itemsOf[T](answer) {
			name := n.name(v)
			switch {
			case !strings.HasPrefix(name, begun):
			case n.about == nil:
				names = append(names, name)
			default:
				names = append(names, cobra.CompletionWithDesc(name, n.about(v)))
			}
		}
		return nil
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
