package server

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/kinesin-io/kinesin/web"
)

// ConsoleOIDC is the OpenID Connect client as which browsers sign in to the console. The policy decides what
// somebody may do who has signed in, by what its issuer says of him.
type ConsoleOIDC struct {
	// Issuer is the URL of an issuer of the policy; empty: nobody signs in at its page.
	Issuer string
	// ClientID and ClientSecretFile are of the client that is registered there. A client without a secret is
	// told from others by PKCE alone. The file is read again when it changes.
	ClientID, ClientSecretFile string
	// Scopes are asked for besides openid; email.
	Scopes []string
	// RedirectURL is where the provider leads back to, exactly as it is registered there: web.CallbackPath
	// under the public name of the console. Empty: as the browser named the server.
	RedirectURL string
}

func (c Config) checkConsoleOIDC() error {
	o := c.ConsoleOIDC
	var errs []error
	if o.Issuer == "" {
		if o.ClientID != "" || o.ClientSecretFile != "" || len(o.Scopes) > 0 || o.RedirectURL != "" {
			errs = append(errs, errors.New("a client of an OpenID Connect provider without the provider: set --console-oidc-issuer"))
		}
		return errors.Join(errs...)
	}
	if u, err := url.Parse(o.Issuer); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		errs = append(errs, fmt.Errorf("OpenID Connect issuer %q: want a URL, such as https://accounts.google.com", o.Issuer))
	}
	if o.ClientID == "" {
		errs = append(errs, errors.New("an OpenID Connect issuer without a client: set --console-oidc-client-id to that which is registered there"))
	}
	if c.PolicyFile == "" {
		errs = append(errs, errors.New("sign-in at an OpenID Connect provider without a policy: set --policy to a file that names the issuer, and says who of its subjects may do what"))
	}
	if c.NoConsole {
		errs = append(errs, errors.New("sign-in to a console that is off: leave out --console=false or --console-oidc-issuer"))
	}
	for _, s := range o.Scopes {
		if s == "" || strings.ContainsAny(s, " \"\\\t\r\n") {
			errs = append(errs, fmt.Errorf("OpenID Connect scope %q: want one word for each, such as email,groups", s))
		}
	}
	if o.RedirectURL != "" {
		u, err := url.Parse(o.RedirectURL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Path != web.CallbackPath || u.RawQuery != "" || u.Fragment != "" {
			errs = append(errs, fmt.Errorf("OpenID Connect redirect URL %q: want https://HOST%s", o.RedirectURL, web.CallbackPath))
		}
	}
	return errors.Join(errs...)
}
