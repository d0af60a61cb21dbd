package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// envPrefix begins the name of every environment variable of ours.
const envPrefix = "KINESIN_"

// settingMark annotates flags that may also come from the environment or the
// file. What a single call is about (--key, --in, --priority …) may not: the
// commands of `kinesin worker` find such facts about their task in variables of the same names.
const settingMark = "kinesin_setting"

// settings marks flags as settings.
func settings(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f := flags.Lookup(name)
		f.Usage += " (" + envName(name) + ")"
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[settingMark] = []string{"true"}
	}
}

func isSetting(f *pflag.Flag) bool { return len(f.Annotations[settingMark]) > 0 }

// envName is the variable of a flag: log-level becomes KINESIN_LOG_LEVEL.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// applySettings is the one place where flags, environment and file meet. It
// sets every setting that the command has and the command line does not give.
func (a *app) applySettings(cmd *cobra.Command) error {
	all := settingNames(cmd.Root())
	values := koanf.New(".")
	origin := map[string]string{}
	if path := a.configPath(cmd); path != "" {
		if err := loadFile(values, path, all); err != nil {
			return err
		}
		for _, name := range values.Keys() {
			origin[name] = path + ": " + name
		}
	}
	if err := values.Load(a.environment(all, origin), nil); err != nil {
		return usagef("read the environment: %v", err)
	}
	return apply(cmd.Flags(), values, origin)
}

func (a *app) configPath(cmd *cobra.Command) string {
	if f := cmd.Flag("config"); f != nil && f.Changed {
		return f.Value.String()
	}
	return a.getenv(envName("config"))
}

func (a *app) getenv(name string) string {
	for _, variable := range slices.Backward(a.Env) {
		if value, found := strings.CutPrefix(variable, name+"="); found {
			return value
		}
	}
	return ""
}

// settingNames lists the settings of all commands below c, in order.
func settingNames(c *cobra.Command) []string {
	names := map[string]bool{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) {
				if isSetting(f) {
					names[f.Name] = true
				}
			})
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(c)
	return slices.Sorted(maps.Keys(names))
}

func loadFile(values *koanf.Koanf, path string, allowed []string) error {
	if err := values.Load(file.Provider(path), yaml.Parser()); err != nil {
		return usagef("configuration file %s: %v", path, err)
	}
	for _, name := range values.Keys() {
		if !slices.Contains(allowed, name) {
			return usagef("configuration file %s: unknown key %q: want any of %s", path, name, strings.Join(allowed, ", "))
		}
	}
	return nil
}

// environment reads our variables. A name that is no setting is left alone: it
// may belong to a task's command, or to what started this process.
func (a *app) environment(allowed []string, origin map[string]string) koanf.Provider {
	return env.Provider(".", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return a.Env },
		TransformFunc: func(variable, value string) (string, any) {
			name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, envPrefix), "_", "-"))
			if value == "" || !slices.Contains(allowed, name) {
				return "", nil
			}
			origin[name] = variable
			return name, value
		},
	})
}

func apply(flags *pflag.FlagSet, values *koanf.Koanf, origin map[string]string) error {
	var refused error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || !isSetting(f) || !values.Exists(f.Name) || refused != nil {
			return
		}
		if err := f.Value.Set(settingText(values.Get(f.Name))); err != nil {
			refused = usagef("%s: %v", origin[f.Name], err)
		}
		f.Changed = true
	})
	return refused
}

// settingText is a value as it would stand on the command line.
func settingText(value any) string {
	list, isList := value.([]any)
	if !isList {
		return fmt.Sprint(value)
	}
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ",")
}

// withoutOurs is an environment for a process that is told everything by flags.
func withoutOurs(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, envPrefix) })
}
