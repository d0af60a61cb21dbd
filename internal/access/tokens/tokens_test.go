package tokens

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// counted counts the reads of rows.
type counted struct {
	store.ControlRows

	reads  int
	broken bool
	lost   error // of writes that happen
}

func (c *counted) Controls(ctx context.Context, kind string) ([]store.Control, error) {
	c.reads++
	if c.broken {
		return nil, store.ErrUnreachable
	}
	return c.ControlRows.Controls(ctx, kind)
}

func (c *counted) PutControl(ctx context.Context, row store.Control) error {
	return errors.Join(c.ControlRows.PutControl(ctx, row), c.lost)
}

type fixture struct {
	*testing.T

	clock *clock.Virtual
	rows  *counted
	logs  bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	v := clock.NewVirtual(task.InstantOf(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)), 1)
	return &fixture{T: t, clock: v, rows: &counted{ControlRows: store.New(mem.New(), store.Config{Clock: v.Process(0)})}}
}

func (f *fixture) registry() *Registry {
	return NewRegistry(f.rows, f.clock.Process(0), slog.New(slog.NewTextHandler(&f.logs, nil)))
}

func identity(t *testing.T, name string, grants ...string) access.Identity {
	t.Helper()
	g, err := access.ParseGrants(grants)
	if err != nil {
		t.Fatal(err)
	}
	return access.Identity{Name: name, Grants: g}
}

func TestATokenIsAcceptedByEveryServerAtOnce(t *testing.T) {
	f := newFixture(t)
	a, b := f.registry(), f.registry()
	if _, err := b.Find(t.Context(), "kinesin_nobody"); !errors.Is(err, ErrUnknown) {
		t.Fatal(err)
	}
	f.clock.Advance(unknownEvery)
	want := identity(t, "team", "schedule:mail-*")
	made, secret, err := a.Create(t.Context(), want, 0, "ops")
	if err != nil || made.CreatedBy != "ops" || !strings.HasPrefix(secret, secretPrefix) || len(secret) < 40 {
		t.Fatal(made, len(secret), err)
	}
	for _, r := range []*Registry{a, b} {
		got, err := r.Find(t.Context(), secret)
		if err != nil || !got.Equal(want) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, other := range []string{"", secret[1:], secret + "A", strings.ToUpper(secret)} {
		if _, err := a.Find(t.Context(), other); !errors.Is(err, ErrUnknown) {
			t.Errorf("%d characters: %v", len(other), err)
		}
	}
	rows, err := f.rows.Controls(t.Context(), Kind)
	if err != nil || len(rows) != 1 || bytes.Contains(rows[0].Value, []byte(secret[len(secretPrefix):])) {
		t.Errorf("%d rows, %v; or one holds the secret", len(rows), err)
	}
}

func TestARevokedTokenIsRefusedWithinSeconds(t *testing.T) {
	f := newFixture(t)
	a, b := f.registry(), f.registry()
	_, secret, err := a.Create(t.Context(), identity(t, "team", "read:*"), 0, "ops")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Find(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Revoke(t.Context(), "team"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Find(t.Context(), secret); !errors.Is(err, ErrRevoked) {
		t.Errorf("here: %v", err)
	}
	f.clock.Advance(refreshEvery)
	if _, err := b.Find(t.Context(), secret); !errors.Is(err, ErrRevoked) || !strings.Contains(err.Error(), "2026-11-23T12:00:00Z") {
		t.Errorf("elsewhere: %v", err)
	}
	if again, err := b.Revoke(t.Context(), "team"); err != nil || again.Revoked != task.InstantOf(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("a second time: %+v, %v", again, err)
	}
	if _, err := a.Revoke(t.Context(), "nobody"); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

func TestATokenExpires(t *testing.T) {
	f := newFixture(t)
	r := f.registry()
	_, secret, err := r.Create(t.Context(), identity(t, "team", "read:*"), time.Hour, "ops")
	if err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Hour - time.Microsecond)
	if _, err := r.Find(t.Context(), secret); err != nil {
		t.Error(err)
	}
	f.clock.Advance(time.Microsecond)
	if _, err := r.Find(t.Context(), secret); !errors.Is(err, ErrExpired) || !strings.Contains(err.Error(), "expired at 2026-11-23T13:00:00Z, and it is 2026-11-23T13:00:00Z") {
		t.Error(err)
	}
}

func TestANameExistsOnce(t *testing.T) {
	f := newFixture(t)
	a, b := f.registry(), f.registry()
	_, first, err := a.Create(t.Context(), identity(t, "team", "read:*"), 0, "ops")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Create(t.Context(), identity(t, "team", "admin:*"), 0, "ops"); !errors.Is(err, ErrExists) {
		t.Errorf("a second one: %v", err)
	}
	if _, err := a.Revoke(t.Context(), "team"); err != nil {
		t.Fatal(err)
	}
	_, second, err := b.Create(t.Context(), identity(t, "team", "cancel:*"), 0, "ops")
	if err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(refreshEvery)
	for _, r := range []*Registry{a, b} {
		if _, err := r.Find(t.Context(), first); !errors.Is(err, ErrUnknown) {
			t.Errorf("the revoked one: %v", err)
		}
		if got, err := r.Find(t.Context(), second); err != nil || !got.Grants.AllowAll(access.Cancel) {
			t.Errorf("the new one: %+v, %v", got, err)
		}
	}
}

func TestReadsAreBounded(t *testing.T) {
	f := newFixture(t)
	r := f.registry()
	_, secret, err := r.Create(t.Context(), identity(t, "team", "read:*"), 0, "ops")
	if err != nil {
		t.Fatal(err)
	}
	f.rows.reads = 0
	for range 100 {
		_, _ = r.Find(t.Context(), "no token of ours")
	}
	if f.rows.reads != 0 {
		t.Errorf("what has not the form of a token was looked for in the store %d times", f.rows.reads)
	}
	for range 10 {
		for range 100 {
			_, _ = r.Find(t.Context(), "kinesin_unknown")
			if _, err := r.Find(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
		}
		f.clock.Advance(unknownEvery)
	}
	if f.rows.reads > 10 {
		t.Errorf("%d reads in 10 s of unknown tokens, want 10 at most", f.rows.reads)
	}
}

func TestWithoutTheStoreNothingOldDecides(t *testing.T) {
	f := newFixture(t)
	r := f.registry()
	_, secret, err := r.Create(t.Context(), identity(t, "team", "read:*"), 0, "ops")
	if err != nil {
		t.Fatal(err)
	}
	f.rows.broken = true
	if _, err := r.Find(t.Context(), secret); err != nil {
		t.Errorf("a moment later: %v", err)
	}
	f.clock.Advance(refreshEvery)
	if _, err := r.Find(t.Context(), secret); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("later: %v", err)
	}
}

func TestAWriteOfUnknownOutcomeIsReadBack(t *testing.T) {
	f := newFixture(t)
	r := f.registry()
	f.rows.lost = store.ErrUnknown
	_, secret, err := r.Create(t.Context(), identity(t, "team", "read:*"), 0, "ops")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Find(t.Context(), secret); err != nil {
		t.Error(err)
	}
	if _, err := r.Revoke(t.Context(), "team"); err != nil {
		t.Error(err)
	}
}

func TestADamagedRowIsSkippedAndNamed(t *testing.T) {
	f := newFixture(t)
	r := f.registry()
	_, secret, err := r.Create(t.Context(), identity(t, "team", "read:*"), 0, "ops")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"json": "{", "hash": `{"sha256":"00","grants":["read:*"]}`, "grants": `{"sha256":"` + strings.Repeat("00", 32) + `","grants":["all"]}`,
		"long": `{"sha256":"` + strings.Repeat("00", 3200) + `","grants":["read:*"]}`,
	} {
		if err := f.rows.PutControl(t.Context(), store.Control{Kind: Kind, Name: name, Version: 1, Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	f.clock.Advance(refreshEvery)
	if _, err := r.Find(t.Context(), secret); err != nil {
		t.Error(err)
	}
	if all, err := r.List(t.Context()); err != nil || len(all) != 1 || strings.Count(f.logs.String(), "cannot be read") != 4 {
		t.Errorf("%d tokens, %v, log %s", len(all), err, f.logs.String())
	}
}

func TestEndedTokensAreForgottenAfterAWhile(t *testing.T) {
	f := newFixture(t)
	r := f.registry()
	for _, name := range []string{"old", "new"} {
		if _, _, err := r.Create(t.Context(), identity(t, name, "read:*"), time.Hour, "ops"); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(keptAfterEnd / 2)
	}
	f.clock.Advance(2 * time.Hour)
	if _, _, err := r.Create(t.Context(), identity(t, "next", "read:*"), 0, "ops"); err != nil {
		t.Fatal(err)
	}
	all, err := r.List(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != "new" {
		t.Errorf("%+v, %v", all, err)
	}
}
