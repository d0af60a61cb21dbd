package sessions

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/access/policy"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// rows counts reads, and may fail or lose its answers.
type rows struct {
	store.ControlRows

	reads  int
	broken bool
	lost   error // of writes that happen
}

func (r *rows) Controls(ctx context.Context, kind string) ([]store.Control, error) {
	if r.reads++; r.broken {
		return nil, store.ErrUnreachable
	}
	return r.ControlRows.Controls(ctx, kind)
}

func (r *rows) PutControl(ctx context.Context, row store.Control) error {
	return errors.Join(r.ControlRows.PutControl(ctx, row), r.lost)
}

// fleet are servers of one installation.
type fleet struct {
	clock *clock.Virtual
	ring  *task.Keyring
	rows  *rows
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	v := clock.NewVirtual(task.InstantOf(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)), 1)
	ring, err := task.NewKeyring(task.Ring{Keys: []task.Key{{Number: 1, Secret: bytes.Repeat([]byte{7}, task.TokenKeyBytes)}}, Seals: 1})
	if err != nil {
		t.Fatal(err)
	}
	return &fleet{v, ring, &rows{ControlRows: store.New(mem.New(), store.Config{Clock: v.Process(0)})}}
}

func (f *fleet) server() *Registry {
	return NewRegistry(f.rows, f.ring.Sessions(), f.clock.Process(0), slog.New(slog.DiscardHandler))
}

func byToken(token string) Proof {
	hash := sha256.Sum256([]byte(token))
	return Proof{Token: hash[:]}
}

func begin(t *testing.T, r *Registry, p Proof) string {
	t.Helper()
	text, err := r.Begin(p)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A session that one server made is one at all, until it is signed out of at any of them.
func TestSessionsAreOfTheFleet(t *testing.T) {
	f := newFleet(t)
	a, b := f.server(), f.server()
	text, other := begin(t, a, byToken("secret")), begin(t, a, byToken("secret"))
	if text == other || strings.Contains(text, "secret") {
		t.Error(text)
	}
	s, err := b.Find(t.Context(), text)
	if err != nil || !bytes.Equal(s.Token, byToken("secret").Token) {
		t.Fatalf("%+v, %v", s, err)
	}
	if err := a.End(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Find(t.Context(), text); !errors.Is(err, ErrNone) {
		t.Error("signed out, and still in:", err)
	}
	f.clock.Advance(refreshEvery)
	if _, err := b.Find(t.Context(), text); !errors.Is(err, ErrNone) {
		t.Error("signed out at another server, and still in:", err)
	}
	if _, err := b.Find(t.Context(), other); err != nil {
		t.Error("another session of the token:", err)
	}
	if err := b.End(t.Context(), text); err != nil {
		t.Error("signed out twice:", err)
	}
	renewed, ok := a.Renew(s, false)
	if ok {
		t.Error("renewed at once:", renewed)
	}
	f.clock.Advance(renewEvery)
	if renewed, ok = a.Renew(s, false); !ok {
		t.Fatal("not renewed")
	}
	if _, err := b.Find(t.Context(), renewed); !errors.Is(err, ErrNone) {
		t.Error("a session that ended goes on under another text:", err)
	}
}

func TestSessionsAreOver(t *testing.T) {
	f := newFleet(t)
	r := f.server()
	soon := f.clock.Process(0).Now().Time().Add(time.Hour).Unix()
	for name, c := range map[string]struct {
		proof Proof
		lives time.Duration // when it is used every hour
	}{
		"a token": {byToken("a"), Life},
		"OIDC":    {Proof{OIDC: &policy.Claims{Issuer: "https://a", Subject: "s"}, Expires: soon}, time.Hour},
		"idle":    {byToken("idle"), IdleMax},
	} {
		f := newFleet(t)
		r := f.server()
		text, began := begin(t, r, c.proof), f.clock.Process(0).Now()
		for {
			s, err := r.Find(t.Context(), text)
			if err != nil {
				break
			}
			if next, ok := r.Renew(s, false); ok && name != "idle" {
				text = next
			}
			f.clock.Advance(time.Minute)
		}
		if lived := f.clock.Process(0).Now().Sub(began); lived != c.lives {
			t.Errorf("%s: lived %v, want %v", name, lived, c.lives)
		}
	}
	for name, text := range map[string]string{"nothing": "", "junk": "AAAA", "long": strings.Repeat("A", TextBytesMax+1), "no base64": "§"} {
		if _, err := r.Find(t.Context(), text); !errors.Is(err, ErrNone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, p := range map[string]Proof{"no proof": {}, "two proofs": {Token: []byte("a"), OIDC: &policy.Claims{}}} {
		if _, err := r.Find(t.Context(), begin(t, r, p)); !errors.Is(err, ErrNone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.Begin(Proof{OIDC: &policy.Claims{Groups: []string{strings.Repeat("g", TextBytesMax)}}}); !errors.Is(err, ErrLong) {
		t.Error(err)
	}
	large := Proof{OIDC: &policy.Claims{Issuer: "https://a", Subject: "s"}, Expires: soon, Refresh: strings.Repeat("r", TextBytesMax)}
	if s := r.open(t.Context(), begin(t, r, large)); s == nil || s.Refresh != "" {
		t.Error("a refresh token that no cookie can hold:", s)
	}
	if f.rows.reads > 0 {
		t.Error("what is no session makes the server read rows")
	}
}

// The store decides whether a session has ended: without it no answer, and a write that is unknown is read.
// Whoever has a copy of a cookie may have got a newer token with it: signing out ends that, too.
func TestASignedOutSessionWithARefreshTokenStaysEnded(t *testing.T) {
	f := newFleet(t)
	r := f.server()
	now := f.clock.Process(0).Now()
	proof := Proof{OIDC: &policy.Claims{Issuer: "https://a", Subject: "s"}, Expires: now.Add(time.Minute).Time().Unix(), Refresh: "r"}
	text := begin(t, r, proof)
	s, err := r.Find(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	s.Expires = now.Add(Life).Time().Unix()
	if _, ok := r.Renew(s, true); !ok {
		t.Fatal("a session with a newer token is not renewed")
	}
	if err := r.End(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		f.clock.Advance(time.Hour)
		s.Used = f.clock.Process(0).Now()
		newer, ok := r.Renew(s, true)
		if !ok {
			t.Fatal("not renewed")
		}
		if _, err := r.Find(t.Context(), newer); !errors.Is(err, ErrNone) {
			t.Fatal("signed out, and in again:", err)
		}
	}
}

func TestWithoutTheStore(t *testing.T) {
	f := newFleet(t)
	a := f.server()
	text := begin(t, a, byToken("a"))
	f.rows.broken = true
	if _, err := a.Find(t.Context(), text); !errors.Is(err, store.ErrUnreachable) {
		t.Error(err)
	}
	if err := a.End(t.Context(), text); !errors.Is(err, store.ErrUnreachable) {
		t.Error(err)
	}
	f.rows.broken, f.rows.lost = false, store.ErrUnknown
	if err := a.End(t.Context(), text); err != nil {
		t.Error("a sign-out that happened:", err)
	}
}

// Rows of sessions that would be over go with later sign-outs, and there is a bound.
func TestEndedSessionsAreBounded(t *testing.T) {
	f := newFleet(t)
	r := f.server()
	ofA := 0
	for r.End(t.Context(), begin(t, r, byToken("a"))) == nil {
		ofA++
	}
	if ofA < EndedMax/3 || ofA > EndedMax/2 {
		t.Errorf("%d of one token", ofA)
	}
	if err := f.server().End(t.Context(), begin(t, r, byToken("a"))); !errors.Is(err, ErrFull) {
		t.Error("one more of it, by a server that reads the rows:", err)
	}
	if err := f.server().End(t.Context(), begin(t, r, byToken("b"))); err != nil {
		t.Error("of another one, by a server that reads the rows:", err)
	}
	f.clock.Advance(refreshEvery)
	admin := access.With(t.Context(), access.Caller{Identity: access.Anonymous()})
	for range EndedMax - ofA - 1 {
		if err := r.End(admin, begin(t, r, byToken("c"))); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.End(admin, begin(t, r, byToken("c"))); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	f.clock.Advance(Life + clockOffMax + time.Second)
	if err := r.End(t.Context(), begin(t, r, byToken("a"))); err != nil {
		t.Error(err)
	}
	left, err := f.rows.Controls(t.Context(), Kind)
	if err != nil || len(left) != EndedMax-sweptMax+1 {
		t.Errorf("%d rows, %v", len(left), err)
	}
}
