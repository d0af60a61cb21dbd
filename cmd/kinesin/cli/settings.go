package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// envPrefix begins the name of every environment variable of Kinesin.
const envPrefix = "KINESIN_"

// settingMark annotates flags that may also be set by the environment or the file. Flags that describe a task
// (--key, --in, --priority …) may not: `kinesin worker` sets variables with these names for its commands.
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

// envName returns the variable of a flag: KINESIN_LOG_LEVEL for log-level.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// applySettings sets every setting of the command that the command line does not give: from the environment,
// or else from the file.
func (a *app) applySettings(cmd *cobra.Command) error {
	path := a.getenv(envName("config"))
	if f := cmd.Flag("config"); f != nil && f.Changed {
		path = f.Value.String()
	}
	values, err := readConfig(path, settingNames(cmd.Root()))
	if err != nil {
		return err
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || !isSetting(f) {
			return
		}
		value, origin := a.getenv(envName(f.Name)), envName(f.Name)
		if v, inFile := values[f.Name]; value == "" && inFile && v != nil {
			value, origin = settingText(v), path+": "+f.Name
		} else if value == "" {
			return
		}
		if refused := f.Value.Set(value); refused != nil {
			err = errors.Join(err, usagef("%s: %s", origin, usageText(refused)))
		}
		f.Changed = true
	})
	return err
}

func (a *app) getenv(name string) string {
	for _, variable := range slices.Backward(a.Env) {
		if value, found := strings.CutPrefix(variable, name+"="); found {
			return value
		}
	}
	return ""
}

// settingNames returns the settings of all commands below c, in order.
func settingNames(c *cobra.Command) []string {
	names := map[string]bool{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if isSetting(f) {
				names[f.Name] = true
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(c)
	return slices.Sorted(maps.Keys(names))
}

// readConfig reads the configuration file. It returns nothing for an empty path.
func readConfig(path string, allowed []string) (map[string]any, error) {
	if path == "" {
		return map[string]any{}, nil
	}
	data, err := readAtMost(path, configBytesMax)
	if err != nil {
		return nil, usagef("configuration file: %v", err)
	}
	return parseConfig(path, data, allowed)
}

// configBytesMax bounds a configuration file.
const configBytesMax = 64 << 10

// readAtMost reads a file, or a pipe, that may be no longer than bytesMax.
func readAtMost(path string, bytesMax int64) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, bytesMax+1))
	if err = errors.Join(err, file.Close()); err == nil && int64(len(data)) > bytesMax {
		err = fmt.Errorf("%s is longer than %d bytes", path, bytesMax)
	}
	return data, err
}

// parseConfig reads YAML. It refuses aliases, by which a short text becomes a long list.
func parseConfig(path string, data []byte, allowed []string) (map[string]any, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, usagef("configuration file %s: %v", path, err)
	}
	if line := aliasIn(&document); line > 0 {
		return nil, usagef("configuration file %s: line %d: an alias (*name) is not allowed", path, line)
	}
	var values map[string]any
	if err := document.Decode(&values); err != nil {
		return nil, usagef("configuration file %s: %v", path, err)
	}
	for name := range values {
		if !slices.Contains(allowed, name) {
			return nil, usagef("configuration file %s: unknown key %q: want any of %s", path, name, strings.Join(allowed, ", "))
		}
	}
	return values, nil
}

// aliasIn returns the line of an alias, or 0.
func aliasIn(n *yaml.Node) int {
	if n.Kind == yaml.AliasNode {
		return n.Line
	}
	for _, inside := range n.Content {
		if line := aliasIn(inside); line > 0 {
			return line
		}
	}
	return 0
}

// settingText returns a value as it would be on the command line.
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

// withoutOurs returns an environment without settings, for a process that gets all of them as flags.
func withoutOurs(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, envPrefix) })
}
