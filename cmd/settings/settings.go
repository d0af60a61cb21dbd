// Package settings sets flags from the environment and from the configuration file, and has the flags of programs that
// call servers. The programs share it; it prints nothing and ends no process.
package settings

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

// mark annotates flags that may also be set by the environment or the file. Flags that describe a task
// (--key, --in, --priority …) may not: `kinesin worker` sets variables with these names for its commands.
const mark = "kinesin_setting"

// Mark marks flags as settings.
func Mark(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f := flags.Lookup(name)
		f.Usage += " (" + EnvName(name) + ")"
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[mark] = []string{"true"}
	}
}

// Is reports whether a flag is a setting.
func Is(f *pflag.Flag) bool { return len(f.Annotations[mark]) > 0 }

// EnvName returns the variable of a flag: KINESIN_LOG_LEVEL for log-level.
func EnvName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Apply sets every setting of a command that the command line does not give: from the environment, or else from the
// file that --config or KINESIN_CONFIG names. The keys of the file have to be among known; nil: a program that has few
// of the settings, and skips the others. Every error is one of usage.
func Apply(cmd *cobra.Command, env, known []string) error {
	path := Getenv(env, EnvName("config"))
	if f := cmd.Flag("config"); f != nil && f.Changed {
		path = f.Value.String()
	}
	values, err := readConfig(path, known)
	if err != nil {
		return err
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || !Is(f) {
			return
		}
		value, origin := Getenv(env, EnvName(f.Name)), EnvName(f.Name)
		if v, inFile := values[f.Name]; value == "" && inFile && v != nil {
			value, origin = text(v), path+": "+f.Name
		} else if value == "" {
			return
		}
		if refused := f.Value.Set(value); refused != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", origin, refused))
		}
		f.Changed = true
		f.Annotations[originMark] = []string{origin}
	})
	return err
}

// originMark annotates the flags that Apply set.
const originMark = "kinesin_origin"

// Origin returns where the value of a setting comes from after Apply: a variable of the environment, the file and its
// key, or "default".
func Origin(f *pflag.Flag) string {
	if origin := f.Annotations[originMark]; len(origin) > 0 {
		return origin[0]
	}
	return "default"
}

// Getenv returns a variable of an environment; empty if it has none.
func Getenv(env []string, name string) string {
	for _, variable := range slices.Backward(env) {
		if value, found := strings.CutPrefix(variable, name+"="); found {
			return value
		}
	}
	return ""
}

// Names returns the settings of all commands below c, in order.
func Names(c *cobra.Command) []string {
	names := map[string]bool{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if Is(f) {
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
func readConfig(path string, known []string) (map[string]any, error) {
	if path == "" {
		return map[string]any{}, nil
	}
	data, err := ReadAtMost(path, configBytesMax)
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	return parseConfig(path, data, known)
}

// configBytesMax bounds a configuration file.
const configBytesMax = 64 << 10

// ReadAtMost reads a file, or a pipe, that may be no longer than bytesMax.
func ReadAtMost(path string, bytesMax int64) ([]byte, error) {
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
func parseConfig(path string, data []byte, known []string) (map[string]any, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, err)
	}
	if line := AliasIn(&document); line > 0 {
		return nil, fmt.Errorf("configuration file %s: line %d: an alias (*name) is not allowed", path, line)
	}
	var values map[string]any
	if err := document.Decode(&values); err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, err)
	}
	for name := range values {
		if known != nil && !slices.Contains(known, name) {
			return nil, fmt.Errorf("configuration file %s: unknown key %q: want any of %s", path, name, strings.Join(known, ", "))
		}
	}
	return values, nil
}

// AliasIn returns the line of an alias, or 0.
func AliasIn(n *yaml.Node) int {
	if n.Kind == yaml.AliasNode {
		return n.Line
	}
	for _, inside := range n.Content {
		if line := AliasIn(inside); line > 0 {
			return line
		}
	}
	return 0
}

// text returns a value as it would be on the command line.
func text(value any) string {
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

// Without returns an environment without settings, for a process that gets all of them as flags.
func Without(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, envPrefix) })
}
