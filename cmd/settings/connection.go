package settings

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/blobplace"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/dial"
	"github.com/kinesin-io/kinesin/internal/livefile"
	"github.com/kinesin-io/kinesin/sdk"
)

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
