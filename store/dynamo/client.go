package dynamo

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
)

// throttlePauses are the pauses before something that DynamoDB throttled is sent again, and throttleMax is
// how long it is sent again before the caller gets store.ErrThrottled.
var throttlePauses = backoff.Policy{Min: 10 * time.Millisecond, Max: 2 * time.Second}

const throttleMax = 8 * time.Second

// Bounds of requests that fail otherwise.
const (
	failuresMax    = 8
	failingTimeMax = 7 * time.Second // three requests that time out
	// unconnectedMax is lower: where nothing listens, more attempts are only load.
	unconnectedMax = 3
)

// How often the log says the same.
const (
	unreachableLogEvery = 10 * time.Second
	unreadableLogEvery  = time.Minute
	// unreadableLoggedMax bounds the rows that get a log line of their own and are remembered for that.
	unreadableLoggedMax = 1024
)

// client sends requests and tells the Observer about them.
type client struct {
	cfg         Config
	api         API
	tables      tables
	unreachable logLimit
	unreadable  unreadableRows

	base    context.Context //nolint:containedctx // of requests that outlive the calls that share them
	end     context.CancelFunc
	running sync.WaitGroup // goroutines that send or wait to
}

// request sends one request, within its timeout and without the client's own retries: a write that is sent
// again meets itself.
func request[In, Out any](ctx context.Context, c *client, name string, rows int, in *In,
	send func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error),
) (*Out, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	if c.cfg.Observer.Request == nil {
		return send(ctx, in, noRetries)
	}
	began := clock.Steady(c.cfg.Clock)
	out, err := send(ctx, in, noRetries)
	c.cfg.Observer.Request(name, rows, clock.Steady(c.cfg.Clock).Sub(began), err)
	return out, err
}

func noRetries(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// retry sends a read, or a write that may be repeated, until it succeeds or another attempt is of no use.
func (c *client) retry(ctx context.Context, table string, send func() error) error {
	began, failures, unconnected := clock.Steady(c.cfg.Clock), 0, 0
	for attempts := 1; ; attempts++ {
		err := send()
		if err == nil {
			return nil
		}
		waited := clock.Steady(c.cfg.Clock).Sub(began)
		switch classify(err) {
		case throttled:
			c.noteThrottled(table)
			if waited > throttleMax {
				return fmt.Errorf("%w: table %s for %v: %w", store.ErrThrottled, table, waited, err)
			}
		case unknown:
			if failures++; failures == failuresMax || waited > failingTimeMax || ctx.Err() != nil {
				return c.noAnswer(ctx, table, err)
			}
		case unsent:
			if unconnected++; unconnected == unconnectedMax || ctx.Err() != nil {
				return c.noAnswer(ctx, table, err)
			}
		case applied, conflicted, refused:
			return fmt.Errorf("table %s: %w", table, err)
		}
		if err := throttlePauses.Sleep(ctx, c.cfg.Clock, attempts); err != nil {
			return err
		}
	}
}

// noAnswer returns the error of a request that DynamoDB did not answer, unless its caller gave it up: that
// says nothing about DynamoDB. Then it has the error of the context as well: what alone broke off, such as
// EOF, would look like an answer.
func (c *client) noAnswer(ctx context.Context, table string, err error) error {
	if gone := ctx.Err(); gone != nil {
		return fmt.Errorf("table %s: %w: %w", table, gone, err)
	}
	return c.unreachableError(table, err)
}

// unreachableError tells a caller to try again. The log has the cause, but not once for every caller.
func (c *client) unreachableError(table string, err error) error {
	if c.unreachable.add(c.cfg.Clock, unreachableLogEvery) > 0 {
		c.cfg.Logger.Warn("DynamoDB does not answer", slog.String("table", table), slog.Any("error", err))
	}
	return fmt.Errorf("%w: table %s: %w", store.ErrUnreachable, table, err)
}

func (c *client) noteThrottled(table string) {
	if c.cfg.Observer.Throttled != nil {
		c.cfg.Observer.Throttled(table)
	}
}

// unreadableRows remembers the rows that were logged as unreadable.
type unreadableRows struct {
	mu     sync.Mutex // guards logged
	logged map[string]bool
	others logLimit // of rows that are not remembered
}

// remember returns whether a row is new and whether there is room to remember it.
func (u *unreadableRows) remember(key string) (isNew, hasRoom bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.logged[key]:
		return false, true
	case len(u.logged) >= unreadableLoggedMax:
		return true, false
	case u.logged == nil:
		u.logged = map[string]bool{}
	}
	u.logged[key] = true
	return true, true
}

// skipUnreadable reports a row that this program cannot read and leaves alone. The log has each row once, and
// when there are too many to remember, how often the others were met.
func (c *client) skipUnreadable(table string, row item, err error) {
	if c.cfg.Observer.Unreadable != nil {
		c.cfg.Observer.Unreadable(table, err)
	}
	var parts []string
	for _, name := range []string{attrPartition, attrWake, attrID, attrKind, attrName} {
		if text := textOf(row, name); text != "" {
			parts = append(parts, name+"="+text)
		}
	}
	key := strings.Join(parts, " ")
	isNew, hasRoom := c.unreadable.remember(table + key)
	switch {
	case !isNew:
	case hasRoom:
		c.cfg.Logger.Error("row left alone: this program cannot read it", slog.String("table", table), slog.String("key", key), slog.Any("error", err))
	default:
		if n := c.unreadable.others.add(c.cfg.Clock, unreadableLogEvery); n > 0 {
			c.cfg.Logger.Error("more rows left alone: this program cannot read them", slog.Int("met", n),
				slog.String("latest_table", table), slog.String("latest", key), slog.Any("error", err))
		}
	}
}

// logLimit counts events that may be frequent and says when to log them.
type logLimit struct {
	mu     sync.Mutex // guards all
	logged bool
	last   time.Duration // monotonic time of the last log line
	count  int           // events since then
}

// add counts one event. It returns how many there were since the last log line when another line is due, and
// else 0.
func (l *logLimit) add(c clock.Clock, every time.Duration) (n int) {
	now := clock.Mono(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if l.logged && now-l.last < every {
		return 0
	}
	n = l.count
	l.logged, l.last, l.count = true, now, 0
	return n
}
