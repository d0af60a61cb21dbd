package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/blobplace"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/dial"
	"github.com/kinesin-io/kinesin/internal/livefile"
	"github.com/kinesin-io/kinesin/sdk"
)

const (
	serverDefault = "http://127.0.0.1:7070"

	// triesInteractive is how often a command that somebody may be watching tries a call: enough for a short
	// failure, without a long wait when no server runs.
	triesInteractive = 4

	// perCallMax is how many ids a server takes in one call.
	perCallMax = 1000
)

func (a *app) serverFlag(flags *pflag.FlagSet) {
	flags.StringVar(&a.server, "server", serverDefault, "base `URL` of the server, or HOST:PORT; several with commas between them are servers over one store: when one fails the next is used")
	flags.StringVar(&a.tokenFile, "token-file", "", "`FILE` whose first line is the token for the server")
	flags.StringVar(&a.caFile, "tls-ca-file", "", "PEM `FILE` with the certificates to trust for an https server, instead of this machine's")
	flags.StringVar(&a.certFile, "tls-client-cert-file", "", "PEM `FILE` with the certificate that shows an https server who calls")
	flags.StringVar(&a.keyFile, "tls-client-key-file", "", "PEM `FILE` with the key of that certificate")
	flags.StringVar(&a.payloadKeys, "payload-key-file", "", "`FILE` with the keys that payloads are encrypted with, the newest first, each a line of an id and 32 bytes in base64")
	flags.StringVar(&a.blobs, "blobs", "", "directory or s3://BUCKET/PREFIX, `PLACE` of payloads above 262144 bytes, the same for all programs of a task")
	settings(flags, "server", "token-file", "tls-ca-file", "tls-client-cert-file", "tls-client-key-file", "payload-key-file", "blobs")
}

// call is the action of a command that calls a server.
type call func(ctx context.Context, k *sdk.Client, args []string) error

// calling completes a command with the flags for the server and the output, and with its action.
func (a *app) calling(c *cobra.Command, act call) *cobra.Command {
	return a.callingWith(c, act, sdk.WithTries(triesInteractive))
}

func (a *app) callingWith(c *cobra.Command, act call, opts ...sdk.ClientOption) *cobra.Command {
	a.outputFlag(c.Flags())
	a.serverFlag(c.Flags())
	c.RunE = does(func(ctx context.Context, args []string) error {
		return a.withClient(func(k *sdk.Client) error { return act(ctx, k, args) }, opts...)
	})
	return c
}

// client makes a client of the servers that --server names. It connects at the first call.
func (a *app) client(opts ...sdk.ClientOption) (*sdk.Client, error) {
	servers, err := dial.Servers(a.server)
	if err != nil {
		return nil, usagef("invalid %v", err)
	}
	a.server = strings.Join(servers, ",")
	codec, err := readPayloadKeys(a.payloadKeys)
	if err != nil {
		return nil, usagef("payload keys: %v", err)
	}
	all := []sdk.ClientOption{
		sdk.WithPayloadCodec(codec), sdk.WithLogger(slog.New(slog.DiscardHandler)), sdk.WithTokenFile(a.tokenFile), sdk.WithCAFile(a.caFile),
		sdk.WithClientCertificate(a.certFile, a.keyFile),
	}
	if a.blobs != "" {
		place, err := blobplace.Open(context.Background(), a.blobs)
		if err != nil {
			return nil, usagef("--blobs: %v", err)
		}
		all = append(all, sdk.WithBlobs(place, 0))
	}
	c, err := sdk.NewClient(a.server, append(all, opts...)...)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return c, nil
}

// withClient calls f with a client and explains its error. On a terminal it shows that it waits.
func (a *app) withClient(f func(*sdk.Client) error, opts ...sdk.ClientOption) error {
	c, err := a.client(opts...)
	if err != nil {
		return err
	}
	defer c.Close()
	a.noteLoose(a.tokenFile)
	a.noteLoose(a.payloadKeys)
	defer a.waiting("waiting for %s", a.server)()
	return a.explain(f(c))
}

// withClients calls f with a client, and with HTTP clients for what the SDK does not offer.
func (a *app) withClients(f func(k *sdk.Client, direct dial.Clients) error) error {
	return a.withClient(func(k *sdk.Client) error {
		direct, err := a.connections()
		if err != nil {
			return err
		}
		defer direct.CloseIdle()
		return f(k, direct)
	})
}

// noteLoose says that everybody may read a file with a secret.
func (a *app) noteLoose(path string) {
	if path != "" && livefile.IsLoose(path) {
		a.note("every user of this machine may use %s, which holds a secret: chmod 600 it", path)
	}
}

// connections makes HTTP clients for what the SDK does not offer. Call client or withClient before: they
// check the settings.
func (a *app) connections() (dial.Clients, error) {
	c, err := dial.New(dial.Config{Server: a.server, TokenFile: a.tokenFile, CAFile: a.caFile, CertFile: a.certFile, KeyFile: a.keyFile, Clock: clock.Real()})
	if err != nil {
		return c, usagef("%v", err)
	}
	return c, nil
}

// explain adds what to do to an error that means that no server could be reached. It does not change the
// error of a server.
func (a *app) explain(err error) error {
	refused, _ := errors.AsType[*api.Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case refused != nil && refused.Unreached:
		return fmt.Errorf("cannot reach a server at %s: is `kinesin serve` running there? --server or %s names another one (%w)",
			a.server, envName("server"), err)
	}
	return err
}

// inParts calls f for parts of at most perCallMax ids and joins the results.
func inParts[R any](texts []string, f func(ids []sdk.ID) ([]R, error)) ([]R, error) {
	ids := make([]sdk.ID, len(texts))
	for i, text := range texts {
		ids[i] = sdk.ID(text)
	}
	var all []R
	for len(ids) > 0 {
		n := min(len(ids), perCallMax)
		some, err := f(ids[:n])
		if err != nil {
			return all, err
		}
		all, ids = append(all, some...), ids[n:]
	}
	return all, nil
}
