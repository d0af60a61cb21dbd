package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/sdk"
)

const serverDefault = "http://127.0.0.1:7070"

// triesAtHand is how often a command that somebody may be watching tries a
// call: enough for a hiccup, and no long wait where no server is.
const triesAtHand = 4

func (a *app) serverFlag(flags *pflag.FlagSet) {
	flags.StringVar(&a.server, "server", serverDefault, "base `URL` of the server")
	flags.StringVar(&a.tokenFile, "token-file", "", "`FILE` with the token that the server wants, in its first line")
	flags.StringVar(&a.caFile, "tls-ca-file", "", "`FILE` with the certificates, in PEM, that are trusted for an https server instead of this machine's")
	settings(flags, "server", "token-file", "tls-ca-file")
}

// fullURL lets --server be host:port.
func (a *app) fullURL() {
	if _, _, err := net.SplitHostPort(a.server); err == nil && !strings.Contains(a.server, "://") {
		a.server = "http://" + a.server
	}
}

// client makes a client of the server that --server names. It connects at the first call.
func (a *app) client(opts ...sdk.ClientOption) (*sdk.Client, error) {
	a.fullURL()
	all := []sdk.ClientOption{sdk.WithLogger(slog.New(slog.DiscardHandler)), sdk.WithTokenFile(a.tokenFile), sdk.WithCAFile(a.caFile)}
	c, err := sdk.NewClient(a.server, append(all, opts...)...)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return c, nil
}

// withClient runs f with a client and explains its error.
func (a *app) withClient(f func(*sdk.Client) error, opts ...sdk.ClientOption) error {
	c, err := a.client(opts...)
	if err != nil {
		return err
	}
	defer c.Close()
	return a.explain(f(c))
}

// explain adds to the error of a call what to do where no connection leads to a server. What a server said
// stays as it is.
func (a *app) explain(err error) error {
	refusal, _ := errors.AsType[*api.Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case refusal != nil && refusal.Unreached:
		return fmt.Errorf("cannot reach a server at %s: is `kinesin serve` running there? --server or %s names another (%w)",
			a.server, envName("server"), err)
	}
	return err
}
