package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access/sessions"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/overview"
)

// Services are the guarded services that the console shows and acts through.
type Services struct {
	Tasks       kinesinv1connect.TaskServiceHandler
	Jobs        kinesinv1connect.JobServiceHandler
	Gates       kinesinv1connect.GateServiceHandler
	Crons       kinesinv1connect.CronServiceHandler
	Lambdas     kinesinv1connect.LambdaServiceHandler
	DeadLetters kinesinv1connect.DeadLetterServiceHandler
	Quotas      kinesinv1connect.QuotaServiceHandler
	Inbound     kinesinv1connect.InboundServiceHandler
	Access      kinesinv1connect.AccessServiceHandler
	Chains      kinesinv1connect.ChainServiceHandler
	Groups      kinesinv1connect.GroupServiceHandler
	Objectives  kinesinv1connect.ObjectiveServiceHandler
}

// Config configures a Console.
type Config struct {
	Services

	Source   Source
	Clock    clock.Clock
	Log      *slog.Logger
	Version  string
	ReadOnly bool // offers and takes no changes
	// ForecastRowsMax bounds the rows that one count of what will be due reads; 0: the default.
	ForecastRowsMax int
	// BackedUp returns up to when the place of backups has all, and how often it is to get more; nil: there is none.
	BackedUp func() (until time.Time, every time.Duration)
	// TraceURL is where a trace is shown, with {trace_id} in place of its id; empty: nowhere.
	TraceURL string
	// SignIn checks a token that somebody enters. nil: nobody has to sign in.
	SignIn func(w http.ResponseWriter, r *http.Request, token string) (sessions.Proof, error)
	// Sessions are those of browsers; nil only where nobody signs in.
	Sessions *sessions.Registry
	// Provider signs in elsewhere; nil: tokens alone do. RedirectURL is where it leads back to: CallbackPath
	// under the name that the browser knows; empty: as the browser named the server.
	Provider    Provider
	RedirectURL string
}

// Source tells what no service does: the installation as the process sees it.
type Source interface {
	Fleet(ctx context.Context) (overview.Fleet, error)
	Window(length time.Duration) overview.Window
	// Minutes tells of a lambda, or of all together if its name is empty.
	Minutes(lambda string, count int) []overview.Minute
	// Failed tells how many attempts of a lambda failed.
	Failed(lambda string) (hour, day uint64)
	// NewestGroups returns groups that the caller may read; more: there are others, or may be.
	NewestGroups(ctx context.Context, limit int) (newest []*kinesinv1.Group, more bool, err error)
	Forecast(ctx context.Context, edges []time.Time, rowsMax int) (overview.Forecast, error)
}

// Provider signs browsers in at a page elsewhere. Its errors that are ErrRefused say why for people.
type Provider interface {
	// Name is what people know it by.
	Name() string
	// Begin returns where to send a browser, and what it is to keep until it comes back to redirect.
	Begin(ctx context.Context, redirect, next string) (to, kept string, err error)
	// Finish takes what it comes back with. next is the one of Begin, also if it fails.
	Finish(r *http.Request, kept string, query url.Values) (proof sessions.Proof, next string, err error)
	// Refresh gives a session whose token ends soon a newer proof, and reports whether it did.
	Refresh(ctx context.Context, s *sessions.Session) (bool, error)
}

// ErrRefused is an error of Config.SignIn and of a Provider: who signs in is not let in.
var ErrRefused = errors.New("this token is not accepted")
