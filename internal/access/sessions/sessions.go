// Package sessions keeps browsers signed in. A session is a sealed text that the browser keeps and every
// server of the installation can open: it says how somebody showed who he is, and since when. Which identity
// that is now, and what it may do, is decided anew with each request. The store has one control row for each
// session that somebody signed out of, until it would have ended by itself.
package sessions

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/access/policy"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/room"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Kind is the kind of the control rows.
const Kind = "ended-session"

// Bounds of sessions.
const (
	Life    = 12 * time.Hour // however often it is used
	IdleMax = 2 * time.Hour  // without a request
	// EndedMax bounds the sessions that are known to be signed out of, of the installation.
	EndedMax = 1000
	// TextBytesMax bounds the sealed text: browsers take cookies of 4,096 bytes with their names.
	TextBytesMax = 3800

	renewEvery   = 5 * time.Minute // how far behind the time of the last use may be
	clockOffMax  = 5 * time.Minute // how far the clocks of two servers may be apart
	refreshEvery = 2 * time.Second // how old what was read of the rows may be
	sweptMax     = 100             // rows that one sign-out deletes, because their sessions would be over
	idBytes      = 16
	use          = "console session"
)

// Errors of sessions.
var (
	ErrNone = errors.New("no session")
	ErrFull = errors.New("too many sessions were signed out of in the last hours")
	ErrLong = errors.New("a session of this identity is too long for a cookie")
)

// Proof is how somebody showed who he is: by a token, of which only the hash is kept, or by what an issuer
// said of him.
type Proof struct {
	Token   []byte         `json:"t,omitempty"` // SHA-256
	OIDC    *policy.Claims `json:"o,omitempty"`
	Expires int64          `json:"e,omitempty"` // in seconds since 1970; 0: when the token does
	// Refresh is the refresh token by which the issuer says it anew; empty: it gave none.
	Refresh string `json:"r,omitempty"`
}

// Session is a browser that is signed in.
type Session struct {
	Proof

	ID    []byte       `json:"i"`
	Began task.Instant `json:"b"`
	Used  task.Instant `json:"u"` // at least; renewEvery behind at most
}

// until is when the session ends if it is used all the time.
func (s *Session) until() task.Instant {
	end := s.Began.Add(Life)
	if s.Expires != 0 {
		end = min(end, task.InstantOf(time.Unix(s.Expires, 0)))
	}
	return end
}

// Sealer encrypts what browsers keep; that of task.Keyring.
type Sealer interface {
	Seal(use string, text []byte) []byte
	Open(ctx context.Context, use string, sealed []byte) ([]byte, error)
}

// Registry begins, finds and ends sessions. It is safe for concurrent use.
type Registry struct {
	rows   store.ControlRows
	sealer Sealer
	clock  clock.Clock
	log    *slog.Logger
	known  *control.OnDemand[ended]
	room   *room.Room // rows of sessions that were signed out of
}

// ended are the sessions that were signed out of.
type ended struct {
	ids   map[string]string // whose they are, by the names of their rows
	stale []store.Control   // rows of sessions that would be over
}

func (e *ended) has(s *Session) bool {
	_, has := e.ids[s.name()]
	return has
}

// NewRegistry returns a registry over the rows of a store.
func NewRegistry(rows store.ControlRows, sealer Sealer, c clock.Clock, log *slog.Logger) *Registry {
	const keptPart = 10 // of the rows, for admins
	r := &Registry{rows: rows, sealer: sealer, clock: c, log: log, room: room.New("ended_sessions", EndedMax, EndedMax/keptPart)}
	r.known = control.NewOnDemand(control.CopyConfig[ended]{Kind: Kind, Rows: rows, Clock: c, Log: log, Build: r.endedOf})
	return r
}

// Room returns what those share who sign out.
func (r *Registry) Room() *room.Room { return r.room }

// Begin returns the text of a new session, under an id that nobody has seen.
func (r *Registry) Begin(p Proof) (string, error) {
	id := make([]byte, idBytes)
	_, _ = rand.Read(id) // never fails
	now := r.clock.Now()
	return r.seal(&Session{Proof: p, ID: id, Began: now, Used: now})
}

// seal returns the text of a session. One that is too long with its refresh token goes without, and ends with
// its token.
func (r *Registry) seal(s *Session) (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	sealed := base64.RawURLEncoding.EncodeToString(r.sealer.Seal(use, text))
	switch {
	case len(sealed) <= TextBytesMax:
		return sealed, nil
	case s.Refresh == "":
		return "", ErrLong
	}
	short := *s
	short.Refresh = ""
	return r.seal(&short)
}

// Find returns the session of a text. ErrNone: it is none, is over, or was signed out of. Other errors are of
// the store: what was read of it too long ago decides nothing.
func (r *Registry) Find(ctx context.Context, text string) (*Session, error) {
	s := r.open(ctx, text)
	if s == nil {
		return nil, ErrNone
	}
	var hasEnded bool
	if err := r.known.Look(ctx, refreshEvery, func(known *ended) { hasEnded = known.has(s) }); err != nil {
		return nil, err
	}
	if hasEnded {
		return nil, ErrNone
	}
	return s, nil
}

// open returns what a text says, unless it was not sealed here or is over.
func (r *Registry) open(ctx context.Context, text string) *Session {
	if len(text) == 0 || len(text) > TextBytesMax {
		return nil
	}
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	plain, err := r.sealer.Open(ctx, use, sealed)
	if err != nil {
		return nil
	}
	var s Session
	if json.Unmarshal(plain, &s) != nil || len(s.ID) != idBytes || (s.OIDC == nil) == (s.Token == nil) {
		return nil
	}
	now := r.clock.Now()
	if now >= s.until() || now >= s.Used.Add(IdleMax) || s.Began > now.Add(clockOffMax) {
		return nil
	}
	return &s
}

// Renew returns the text of a session that was used now. ok: it is time for it, or its proof has changed.
func (r *Registry) Renew(s *Session, changed bool) (text string, ok bool) {
	now := r.clock.Now()
	if now < s.Used.Add(renewEvery) && !changed {
		return "", false
	}
	next := *s
	next.Used = now
	text, err := r.seal(&next)
	return text, err == nil
}

func (s *Session) name() string { return base64.RawURLEncoding.EncodeToString(s.ID) }

// record is the stored form of a session that was signed out of.
type record struct {
	Until int64  `json:"until_us"`
	Of    string `json:"of,omitempty"` // as Session.of
}

// of names who a session is of, by what he showed.
func (s *Session) of() string {
	hash := sha256.New()
	hash.Write(s.Token)
	if s.OIDC != nil {
		hash.Write([]byte(s.OIDC.Issuer + "\n" + s.OIDC.Subject))
	}
	return base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:12])
}

// End ends the session of a text on all servers: on this one at once, on the others when they read the rows
// again. A text that is no session needs no end.
func (r *Registry) End(ctx context.Context, text string) error {
	s := r.open(ctx, text)
	if s == nil {
		return nil
	}
	var count, own int64
	var stale []store.Control
	of := s.of()
	err := r.known.Look(ctx, refreshEvery, func(known *ended) {
		count, stale, known.stale = int64(len(known.ids)), known.stale, nil
		for _, whose := range known.ids {
			if whose == of {
				own++
			}
		}
	})
	if err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	for i := range stale[:min(len(stale), sweptMax)] {
		_ = r.rows.DeleteControl(ctx, stale[i]) // the next sign-out tries again
	}
	if !r.room.Admits("session "+of, count, own, access.From(ctx).Grants.AllowAll(access.Admin)) {
		return ErrFull
	}
	until := s.until()
	if s.Refresh != "" {
		until = s.Began.Add(Life) // a copy of its cookie may have a newer token
	}
	value, err := json.Marshal(record{int64(until), of})
	if err != nil {
		return err
	}
	err = r.rows.PutControl(ctx, store.Control{Kind: Kind, Name: s.name(), Version: 1, Value: value})
	if errors.Is(err, store.ErrUnknown) {
		err = r.readBack(ctx, s, err)
	}
	if err != nil && !errors.Is(err, store.ErrConflict) { // a conflict: it was ended twice
		return fmt.Errorf("end a session: %w", err)
	}
	r.known.UpdateCopy(func(known *ended) { known.ids[s.name()] = of })
	return nil
}

// readBack returns nil if a write whose outcome is unknown was applied.
func (r *Registry) readBack(ctx context.Context, s *Session, unknown error) error {
	var hasEnded bool
	if err := r.known.Look(ctx, 0, func(known *ended) { hasEnded = known.has(s) }); err != nil {
		return err
	}
	if hasEnded {
		return nil
	}
	return unknown
}

func (r *Registry) endedOf(ctx context.Context, rows []store.Control) ended {
	all, now := ended{ids: make(map[string]string, len(rows))}, r.clock.Now()
	for i := range rows {
		var rec record
		if err := json.Unmarshal(rows[i].Value, &rec); err != nil {
			r.log.ErrorContext(ctx, "a row of an ended session cannot be read; the session stays ended", slog.String("row", rows[i].Name), slog.Any("error", err))
		} else if now > task.Instant(rec.Until).Add(clockOffMax) {
			all.stale = append(all.stale, rows[i])
			continue
		}
		all.ids[rows[i].Name] = rec.Of
	}
	return all
}
