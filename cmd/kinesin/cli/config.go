package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/cmd/settings"
)

func (a *app) configCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "config",
		Short: "Look at the settings",
	}, a.configViewCommand())
}

// settingObject is a setting in JSON.
type settingObject struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"` // default, a variable of the environment, or the file and its key
}

func (a *app) configViewCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "view",
		Short: "List all settings, their values and where they come from",
		Long: `Lists all settings, their values and where each comes from: the environment, the configuration file or the default. Files
with secrets are named and not read. Exit 2 when the file or a value is refused.`,
		Example: `  kinesin config view
  kinesin config view --config /etc/kinesin/kinesin.yaml -o json`,
		Args: cobra.NoArgs,
	}
	return a.acting(c, func(context.Context, []string) error {
		all, err := a.allSettings(c)
		if err != nil {
			return usagef("%v", err)
		}
		n := noun[*settingObject]{
			titles: []string{"SETTING", "VALUE", "FROM"},
			cells:  func(o *settingObject) []string { return []string{o.Name, o.Value, o.From} },
		}
		return n.printAll(a, all, all)
	})
}

// allSettings returns the settings of all commands in order. Where commands have different defaults, that of
// `kinesin serve` is shown.
func (a *app) allSettings(view *cobra.Command) (all []*settingObject, err error) {
	root := view.Root()
	names := settings.Names(root)
	byName := map[string]*settingObject{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c != view && err == nil { // other commands refuse the same
			err = settings.Apply(c, a.Env, names)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if settings.Is(f) && (byName[f.Name] == nil || c.Name() == "serve") {
				byName[f.Name] = &settingObject{f.Name, f.Value.String(), settings.Origin(f)}
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	for _, name := range names {
		all = append(all, byName[name])
	}
	return all, err
}
