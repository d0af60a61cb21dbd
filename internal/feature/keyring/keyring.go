// Package keyring keeps the key ring of an installation in the store: the numbered secrets that seal public
// ids, messages, page tokens and lease proofs, and the senders that have an inbound key of their own. It
// reads the ring again every few seconds, adds keys, removes those that nothing needs any more, and serves
// the KeyringService of the wire contract. It seals nothing itself: package task does.
package keyring

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// Overlap is how long before it seals a key is in the ring, so that every server has read it by then:
	// ReadEvery, and the 5 minutes each by which the clock of a server, and the time of a client's id, may be
	// off.
	Overlap = 15 * time.Minute
	// ReadEvery is how soon a server knows what another one changed.
	ReadEvery = 10 * time.Second
	// MessagesFor is how long a retired key verifies messages, page tokens and lease proofs: 14 days, for
	// which SQS keeps a message, and a month for senders to get their new inbound key.
	MessagesFor = 45 * 24 * time.Hour
	// KeysMax is how many keys are kept.
	KeysMax = 128
	// SendersMax is how many senders have an inbound key of their own; a revoked one counts until its ids are
	// no longer verified.
	SendersMax = 1000

	// unknownEvery is how often, at most, an unknown key or sender makes a server read the ring.
	unknownEvery = time.Second
	readWithin   = 2 * time.Second // bounds such a read
)

// Rows is what a Ring needs of a store.
type Rows interface {
	Control(ctx context.Context, kind, name string) (store.Control, error)
	ControlsOmitted(ctx context.Context, kind string) (rows []store.Control, omitted map[string]error, err error)
	PutControl(ctx context.Context, c store.Control) error
	DeleteControl(ctx context.Context, c store.Control) error
}

// Config is what a Ring is made of.
type Config struct {
	Rows  Rows
	Clock clock.Clock
	Log   *slog.Logger
	// IDsFor is how long a retired key verifies public ids: as long as a task may wait, and its row is kept
	// after that.
	IDsFor time.Duration
	// Inbound says that there is an inbound queue, to which senders send.
	Inbound bool
}

// Ring is the key ring of an installation. It is safe for concurrent use.
type Ring struct {
	*task.Keyring

	cfg Config

	reading     chan struct{} // holds a token while somebody reads; guards the rest
	first       []byte        // the secret of an installation that never rotated; nil if it did
	known       content
	seals       uint8
	nextUnknown time.Duration // monotonic time from which on an unknown key makes it read
}

// Open reads the ring, or creates its first key at the first start of an installation. Run keeps it up to
// date. A ring that cannot be read is an error: what was sealed with its keys would be unknown.
func Open(ctx context.Context, c Config) (*Ring, error) {
	r := &Ring{Keyring: &task.Keyring{}, cfg: c, reading: make(chan struct{}, 1)}
	r.Unknown = r.readUnknown
	r.nextUnknown = clock.Mono(c.Clock)
	if err := r.Read(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// Run reads the ring every ReadEvery until ctx ends.
func (r *Ring) Run(ctx context.Context) error {
	for clock.Sleep(ctx, r.cfg.Clock, ReadEvery) == nil {
		if err := r.Read(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Log.WarnContext(ctx, "cannot read the key ring; keeping the keys that are known", slog.Any("error", err))
		}
	}
	return nil
}

// Read reads the ring. When it returns, everything that was stored before the call is known. After an error
// the keys that are known stay in use.
func (r *Ring) Read(ctx context.Context) error {
	if err := r.lock(ctx); err != nil {
		return err
	}
	defer r.unlock()
	return r.read(ctx)
}

// readUnknown reads the ring because of a key or a sender that it does not know. It ends with the call that
// named it.
func (r *Ring) readUnknown(ctx context.Context) {
	ctx, cancel := clock.Within(ctx, r.cfg.Clock, readWithin)
	defer cancel()
	if r.lock(ctx) != nil {
		return
	}
	defer r.unlock()
	if now := clock.Mono(r.cfg.Clock); now >= r.nextUnknown {
		r.nextUnknown = now + unknownEvery
		if err := r.read(ctx); err != nil && !errors.Is(context.Cause(ctx), context.Canceled) {
			r.cfg.Log.WarnContext(ctx, "cannot read the key ring because of a key that is not known", slog.Any("error", err))
		}
	}
}

// lock is no mutex, since callers that wait for the store must be able to give up.
func (r *Ring) lock(ctx context.Context) error {
	select {
	case r.reading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *Ring) unlock() { <-r.reading }

// read reads all rows and uses them from now on. If it fails, it goes on with those that it knew, since time
// alone also changes what a key is good for.
func (r *Ring) read(ctx context.Context) error {
	next, err := r.load(ctx)
	if err != nil {
		if r.known.keys == nil {
			return fmt.Errorf("read the key ring: %w", err)
		}
		next = r.known
	}
	if useErr := r.use(ctx, next); useErr != nil {
		return fmt.Errorf("%w: key ring: %w", store.ErrCorrupt, useErr)
	}
	if err != nil {
		return fmt.Errorf("read the key ring: %w", err)
	}
	return nil
}

func (r *Ring) load(ctx context.Context) (content, error) {
	rows, omitted, err := r.cfg.Rows.ControlsOmitted(ctx, Kind)
	if err != nil {
		return content{}, err
	}
	if err := omitted[keysName]; err != nil {
		return content{}, err
	}
	skip := func(name string, err error) {
		r.cfg.Log.ErrorContext(ctx, "skipping a sender that cannot be read; its messages are not taken", slog.String("row", name), slog.Any("error", err))
	}
	var c content
	for _, row := range rows {
		if row.Name == keysName {
			if c.keys, err = decodeKeys(row.Value); err != nil {
				return content{}, err
			}
			c.version = row.Version
			continue
		}
		s, err := decodeSender(row)
		if err != nil {
			skip(row.Name, err)
			continue
		}
		c.senders = append(c.senders, s)
	}
	for name, err := range omitted {
		skip(name, err)
	}
	if c.keys == nil {
		if c.keys, err = r.firstKey(ctx); err != nil {
			return content{}, err
		}
	}
	return c, nil
}

// firstKey returns the keys of an installation that never rotated. Of several processes that start first one
// wins the conditional write, and all use its secret.
func (r *Ring) firstKey(ctx context.Context) ([]keyRow, error) {
	if r.known.version > 0 {
		return nil, fmt.Errorf("%w: the row %s %q is gone", store.ErrCorrupt, Kind, keysName)
	}
	if r.first == nil {
		row, err := r.cfg.Rows.Control(ctx, firstKind, firstName)
		if errors.Is(err, store.ErrNotFound) {
			row = store.Control{Kind: firstKind, Name: firstName, Version: 1, Value: newSecret(task.TokenKeyBytes)}
			if err = r.cfg.Rows.PutControl(ctx, row); errors.Is(err, store.ErrConflict) {
				row, err = r.cfg.Rows.Control(ctx, firstKind, firstName)
			}
		}
		if err != nil {
			return nil, err
		}
		if n := len(row.Value); n != task.TokenKeyBytes {
			return nil, fmt.Errorf("%w: secret of public ids has %d bytes, want %d", store.ErrCorrupt, n, task.TokenKeyBytes)
		}
		r.first = row.Value
	}
	return []keyRow{{Number: task.FirstKey, Secret: r.first}}, nil
}

func newSecret(n int) []byte {
	secret := make([]byte, n)
	_, _ = rand.Read(secret) // never fails: crypto/rand
	return secret
}

// use puts rows to use, as of now.
func (r *Ring) use(ctx context.Context, c content) error {
	now := r.cfg.Clock.Now()
	sealing := c.sealing(now)
	ring := task.Ring{Seals: c.keys[sealing].Number}
	for i, k := range c.keys {
		retired, isRetired := c.retiredAt(i)
		ring.Keys = append(ring.Keys, task.Key{
			Number: k.Number, Secret: k.Secret, From: k.SealsFrom, IDsOnly: isRetired && i < sealing && now >= retired.Add(MessagesFor),
		})
	}
	for _, s := range c.senders {
		ring.Senders = append(ring.Senders, s.sender())
	}
	if err := r.Set(ring); err != nil {
		return err
	}
	if r.seals != 0 && r.seals != ring.Seals {
		r.cfg.Log.InfoContext(ctx, "another key seals", slog.Int("key", int(ring.Seals)), slog.Int("before", int(r.seals)))
	}
	r.known, r.seals = c, ring.Seals
	return nil
}

// Kind is the kind of the control rows.
const Kind = "keyring"

const (
	keysName     = "keys"    // the row with all keys, so that one conditional write decides
	senderPrefix = "sender/" // a row for each sender: sender/NAME
	rowsForm     = 1         // of the values; a higher one has what this program must not skip

	// The first secret of an installation has a row of its own, which releases without a key ring read, until
	// it is removed from the ring.
	firstKind = "secret"
	firstName = "public-ids"
)

// content is what the rows say.
type content struct {
	keys    []keyRow // by number, and by SealsFrom; at least one
	version uint64   // of their row; 0: there is none yet
	senders []senderRow
}

// keysRow is the value of the row of all keys.
type keysRow struct {
	Form int      `json:"form"`
	Keys []keyRow `json:"keys"`
}

type keyRow struct {
	Number    uint8        `json:"number"`
	Secret    []byte       `json:"secret"`
	Created   task.Instant `json:"created_us,omitempty"` // 0: not known
	SealsFrom task.Instant `json:"seals_from_us,omitempty"`
}

// senderRow is the value of the row of a sender.
type senderRow struct {
	Form    int          `json:"form"`
	Salt    []byte       `json:"salt"`
	Lambdas []string     `json:"lambdas"`
	Created task.Instant `json:"created_us"`
	Revoked task.Instant `json:"revoked_us,omitempty"`

	name    string
	version uint64
}

func decodeKeys(value []byte) ([]keyRow, error) {
	var row keysRow
	err := json.Unmarshal(value, &row)
	switch {
	case err == nil && row.Form > rowsForm:
		return nil, fmt.Errorf("%w: key ring of form %d, this program reads up to %d", store.ErrVersion, row.Form, rowsForm)
	case err != nil || row.Form < 1 || len(row.Keys) == 0 || len(row.Keys) > KeysMax:
		return nil, fmt.Errorf("%w: key ring with %d keys that cannot be decoded", store.ErrCorrupt, len(row.Keys)) // err may hold a secret
	}
	for i, k := range row.Keys {
		if len(k.Secret) != task.TokenKeyBytes {
			return nil, fmt.Errorf("%w: key %d of the key ring has %d bytes, want %d", store.ErrCorrupt, k.Number, len(k.Secret), task.TokenKeyBytes)
		}
		if i > 0 && (k.Number <= row.Keys[i-1].Number || k.SealsFrom < row.Keys[i-1].SealsFrom) || k.Number < task.FirstKey {
			return nil, fmt.Errorf("%w: key %d of the key ring is out of order", store.ErrCorrupt, k.Number)
		}
	}
	return row.Keys, nil
}

func encodeKeys(keys []keyRow, version uint64) (store.Control, error) {
	value, err := json.Marshal(keysRow{rowsForm, keys})
	return store.Control{Kind: Kind, Name: keysName, Version: version, Value: value}, err
}

func decodeSender(c store.Control) (senderRow, error) {
	name, isSender := strings.CutPrefix(c.Name, senderPrefix)
	row := senderRow{name: name, version: c.Version}
	err := json.Unmarshal(c.Value, &row)
	switch {
	case err == nil && row.Form > rowsForm:
		return row, fmt.Errorf("%w: of form %d, this program reads up to %d", store.ErrVersion, row.Form, rowsForm)
	case err != nil || !isSender || row.Form < 1:
		return row, fmt.Errorf("%w: cannot be decoded", store.ErrCorrupt)
	}
	s := row.sender()
	if err := s.Validate(); err != nil {
		return row, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	return row, nil
}

func (s *senderRow) encode() (store.Control, error) {
	value, err := json.Marshal(s)
	return store.Control{Kind: Kind, Name: senderPrefix + s.name, Version: s.version, Value: value}, err
}

func (s *senderRow) sender() task.InboundSender {
	return task.InboundSender{Name: s.name, Salt: s.Salt, Lambdas: s.Lambdas, Revoked: s.Revoked != 0}
}

// sealing returns the index of the key that seals: the newest whose time has come.
func (c *content) sealing(now task.Instant) int {
	for i := len(c.keys) - 1; i > 0; i-- {
		if c.keys[i].SealsFrom <= now {
			return i
		}
	}
	return 0
}

// retiredAt returns when a key stops sealing, or stopped; false while it has no successor.
func (c *content) retiredAt(i int) (task.Instant, bool) {
	if i+1 == len(c.keys) {
		return 0, false
	}
	return c.keys[i+1].SealsFrom, true
}
