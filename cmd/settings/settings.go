// Package settings sets flags from the environment and from the configuration file, and has the flags of programs that
// call servers. The programs share it; it prints nothing and ends no process.
package settings

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/blobplace"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/dial"
	"github.com/kinesin-io/kinesin/internal/livefile"
	"github.com/kinesin-io/kinesin/sdk"
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

// ServerDefault is the server of a program that is told none.
const ServerDefault = "http://127.0.0.1:7070"

// Connection is how a program calls servers. Paths are empty for none.
type Connection struct {
	Server                    string // base URL, or several with commas between them
	TokenFile                 string
	CAFile, CertFile, KeyFile string
	PayloadKeyFile            string
	Blobs                     string // place of large payloads
}

// AddTo adds the flags of the connection, which are settings.
func (c *Connection) AddTo(flags *pflag.FlagSet) {
	flags.StringVar(&c.Server, "server", ServerDefault, "`URL` or HOST:PORT of the server; several over one store with commas between them: when one fails the next is used")
	flags.StringVar(&c.TokenFile, "token-file", "", "`FILE` whose first line is the token for the server")
	flags.StringVar(&c.CAFile, "tls-ca-file", "", "PEM `FILE` with the certificates to trust, instead of this machine's")
	flags.StringVar(&c.CertFile, "tls-client-cert-file", "", "PEM `FILE` with the certificate that tells the server who calls")
	flags.StringVar(&c.KeyFile, "tls-client-key-file", "", "PEM `FILE` with the key of that certificate")
	flags.StringVar(&c.PayloadKeyFile, "payload-key-file", "", "`FILE` with the keys of payloads, the newest first, each a line of an id and 32 bytes in base64")
	flags.StringVar(&c.Blobs, "blobs", "", "directory or s3://BUCKET/PREFIX, `PLACE` of payloads above 262144 bytes, the same for all")
	names := []string{"server", "token-file", "tls-ca-file", "tls-client-cert-file", "tls-client-key-file", "payload-key-file", "blobs"}
	Mark(flags, names...)
	for _, name := range names {
		flags.Lookup(name).Annotations[connectionMark] = []string{"true"}
	}
}

// connectionMark annotates the flags of a connection.
const connectionMark = "kinesin_connection"

// IsConnection reports whether a flag is one of the connection.
func IsConnection(f *pflag.Flag) bool { return len(f.Annotations[connectionMark]) > 0 }

// Client makes a client of the servers. It connects at the first call. Every error is one of usage.
func (c *Connection) Client(opts ...sdk.ClientOption) (*sdk.Client, error) {
	servers, err := dial.Servers(c.Server)
	if err != nil {
		return nil, fmt.Errorf("invalid %w", err)
	}
	c.Server = strings.Join(servers, ",")
	codec, err := readPayloadKeys(c.PayloadKeyFile)
	if err != nil {
		return nil, fmt.Errorf("payload keys: %w", err)
	}
	all := []sdk.ClientOption{
		sdk.WithPayloadCodec(codec), sdk.WithLogger(slog.New(slog.DiscardHandler)), sdk.WithTokenFile(c.TokenFile), sdk.WithCAFile(c.CAFile),
		sdk.WithClientCertificate(c.CertFile, c.KeyFile),
	}
	if c.Blobs != "" {
		place, err := blobplace.Open(context.Background(), c.Blobs)
		if err != nil {
			return nil, fmt.Errorf("--blobs: %w", err)
		}
		all = append(all, sdk.WithBlobs(place, 0))
	}
	return sdk.NewClient(c.Server, append(all, opts...)...)
}

// Direct makes HTTP clients for what the SDK does not offer. Call Client before: it checks the settings. Every error
// is one of usage.
func (c *Connection) Direct() (dial.Clients, error) {
	return dial.New(dial.Config{Server: c.Server, TokenFile: c.TokenFile, CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, Clock: clock.Real()})
}

// Loose says of each file with a secret that everybody may use what to do about that.
func (c *Connection) Loose() (notes []string) {
	for _, path := range []string{c.TokenFile, c.PayloadKeyFile} {
		if path != "" && livefile.IsLoose(path) {
			notes = append(notes, fmt.Sprintf("every user of this machine may use %s, which holds a secret: chmod 600 it", path))
		}
	}
	return notes
}

// Explain adds what to do to an error that means that no server could be reached. It does not change the
// error of a server.
func (c *Connection) Explain(err error) error {
	refused, _ := errors.AsType[*api.Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case refused != nil && refused.Unreached:
		return fmt.Errorf("cannot reach a server at %s: is `kinesin serve` running there? --server or %s names another one (%w)",
			c.Server, EnvName("server"), err)
	}
	return err
}

const (
	payloadKeysBytesMax = 64 << 10
	payloadKeysMax      = 64
)

// readPayloadKeys returns a codec with the keys of a file; nil for no file.
func readPayloadKeys(path string) (sdk.PayloadCodec, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // payloads stay as they are
	}
	content, err := livefile.Read(path, payloadKeysBytesMax)
	if err != nil {
		return nil, err
	}
	keys, err := parsePayloadKeys(content)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", livefile.ErrFile, path, err)
	}
	return sdk.NewAESGCMCodec(keys...)
}

// parsePayloadKeys reads keys, one per line, the newest first: its id, a space and its 32 bytes in base64. It
// skips empty lines and those that begin with #. No error quotes a key.
func parsePayloadKeys(content []byte) ([]sdk.PayloadKey, error) {
	var keys []sdk.PayloadKey
	number := 0
	for line := range bytes.Lines(content) {
		number++
		fields := strings.Fields(string(line))
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		if len(keys) == payloadKeysMax {
			return nil, fmt.Errorf("line %d: it holds more than %d keys", number, payloadKeysMax)
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("line %d: want an id, a space and a key, as in: echo \"2026-11 $(openssl rand -base64 32)\"", number)
		}
		secret, err := base64.StdEncoding.DecodeString(fields[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: the key is not 32 bytes in base64: openssl rand -base64 32 prints one", number)
		}
		keys = append(keys, sdk.PayloadKey{ID: fields[0], Secret: secret})
	}
	return keys, nil
}
