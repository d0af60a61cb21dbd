package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/backup"
	"github.com/kinesin-io/kinesin/store/pebble"
)

// Defaults of a standby.
const (
	StandbyEveryDefault = 5 * time.Second
	PromoteWaitDefault  = time.Minute
	// answerEvery is how often a promotion looks for the answer of the server that it replaces.
	answerEvery = 500 * time.Millisecond
)

// StandbyConfig says of which place a standby keeps a copy, and where.
type StandbyConfig struct {
	From    string // directory or s3://BUCKET/PREFIX
	DataDir string
	Every   time.Duration // between two looks; StandbyEveryDefault
	Log     *slog.Logger
}

// open opens the copy in a data directory that holds nothing else.
func (c *StandbyConfig) open() (*backup.Standby, error) {
	if err := pebble.CheckStandby(c.DataDir, pebble.Config{}); err != nil {
		return nil, err
	}
	return backup.OpenStandby(filepath.Join(c.DataDir, pebble.StandbyDir))
}

// Standby keeps a copy of the newest recovery point of a place until ctx ends. A place that is away is tried again.
func Standby(ctx context.Context, c StandbyConfig) error {
	copied, err := c.open()
	if err != nil {
		return err
	}
	failing := false
	for ctx.Err() == nil {
		before := copied.Held()
		fetched, err := fetch(ctx, copied, c.From)
		behind := clock.Real().Now().Time().Sub(copied.Held()).Truncate(time.Millisecond)
		switch {
		case err != nil && ctx.Err() == nil && !failing:
			failing = true
			c.Log.WarnContext(ctx, "the standby cannot follow; tried again until it works", slog.String("from", c.From),
				slog.Time("has", copied.Held()), slog.Any("error", err))
		case err == nil && (failing || !copied.Held().Equal(before)):
			failing = false
			c.Log.InfoContext(ctx, "the standby has the newest recovery point", slog.Time("point", copied.Held()),
				slog.Duration("behind", behind), slog.Int64("fetched_bytes", fetched))
		}
		_ = clock.Sleep(ctx, clock.Real(), c.Every) // the end of ctx is the end
	}
	return copied.Close()
}

func fetch(ctx context.Context, copied *backup.Standby, from string) (fetched int64, err error) {
	place, err := backup.OpenExisting(ctx, from)
	if err != nil {
		return 0, err
	}
	defer place.Close()
	_, fetched, err = copied.Fetch(ctx, place)
	return fetched, err
}

// PromoteReport is the result of a Promote.
type PromoteReport struct {
	RestoreReport

	Claim    int
	Before   backup.Claim // of the server that was replaced; its number is 0 if there was none
	Answered bool         // that server has said that it stopped, so that its last recovery point has all
}

// Promote makes the data directory of a standby, or an empty one, that of the server which goes on with a place. It
// claims the place, waits for the answer of the server that it replaces for some time, and fetches what is new.
func Promote(ctx context.Context, c StandbyConfig, wait time.Duration) (report PromoteReport, err error) {
	place, err := backup.OpenExisting(ctx, c.From)
	if err != nil {
		return report, fmt.Errorf("backup %s: %w", c.From, err)
	}
	defer place.Close()
	copied, err := c.open()
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, copied.Close()) }()
	if _, _, err := copied.Fetch(ctx, place); err != nil { // most of it, while the other server works
		return report, fmt.Errorf("backup %s: %w", c.From, err)
	}
	identity, err := backup.ReadIdentity(c.DataDir)
	if err != nil {
		return report, err
	}
	claim, before, err := place.TakeOver(ctx, newClaim(c.DataDir, identity))
	if err != nil {
		return report, fmt.Errorf("claim %s: %w", c.From, err)
	}
	report.Claim, report.Before = claim.Number, before
	c.Log.InfoContext(ctx, "the place is claimed", slog.String("from", c.From), slog.Int("claim", claim.Number))
	if report.Answered, err = awaitAnswer(ctx, place, before.Number, wait); err != nil {
		return report, err
	}
	m, _, err := copied.Fetch(ctx, place)
	if err != nil {
		return report, fmt.Errorf("backup %s: %w", c.From, err)
	}
	report.Created, report.Files, report.Bytes = m.Created, len(m.Files), m.Bytes()
	look := func(ctx context.Context, d *pebble.Driver) error { return report.count(ctx, d) }
	if err := pebble.Promote(ctx, c.DataDir, pebble.Config{Logger: c.Log}, copied.MoveTo, look); err != nil {
		return report, err
	}
	identity.Held = c.From
	return report, identity.Write()
}

// awaitAnswer waits until the server of a claim has said that it stopped, or for some time.
func awaitAnswer(ctx context.Context, place *backup.Place, number int, wait time.Duration) (answered bool, err error) {
	if number == 0 {
		return false, nil
	}
	for began := clock.Mono(clock.Real()); ; {
		answered, err = place.Answered(ctx, number)
		if answered || clock.Mono(clock.Real())-began >= wait {
			return answered, err
		}
		if err := clock.Sleep(ctx, clock.Real(), answerEvery); err != nil {
			return false, err
		}
	}
}
