package keyring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// States of a key.
const (
	StateWaiting = "waiting" // it seals later
	StateSealing = "sealing"
	StateRetired = "retired" // it verifies what it sealed
	StateExpired = "expired" // the next rotation removes it
)

var errNoInbound = api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED,
	"this server has no inbound queue, so that nobody sends to one; with `--inbound-queue` it has one")

// RotateKeys implements the KeyringService, as do the other methods here.
func (r *Ring) RotateKeys(ctx context.Context, _ *kinesinv1.RotateKeysRequest) (*kinesinv1.RotateKeysResponse, error) {
	added, removed, err := r.rotate(ctx)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	response := &kinesinv1.RotateKeysResponse{Key: &kinesinv1.KeyringKey{
		Number: uint32(added.Number), Created: int64(added.Created), SealsFrom: int64(added.SealsFrom), State: StateWaiting,
	}}
	for _, k := range removed {
		response.Removed = append(response.Removed, uint32(k.Number))
	}
	return response, nil
}

// ListKeys lists the keys by number, without their secrets.
func (r *Ring) ListKeys(ctx context.Context, _ *kinesinv1.ListKeysRequest) (*kinesinv1.ListKeysResponse, error) {
	c, err := r.fresh(ctx)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	response, now := &kinesinv1.ListKeysResponse{}, r.cfg.Clock.Now()
	sealing := c.sealing(now)
	for i, k := range c.keys {
		v := &kinesinv1.KeyringKey{Number: uint32(k.Number), Created: int64(k.Created), SealsFrom: int64(k.SealsFrom)}
		if retired, is := c.retiredAt(i); is {
			until := retired.Add(r.cfg.IDsFor)
			v.Retired, v.MessagesUntil, v.VerifiesUntil = int64(retired), int64(retired.Add(MessagesFor)), int64(until)
			if v.State = StateRetired; now >= until {
				v.State = StateExpired
			}
		}
		switch {
		case i == sealing:
			v.State = StateSealing
		case i > sealing:
			v.State = StateWaiting
		}
		response.Keys = append(response.Keys, v)
	}
	return response, nil
}

// AddSender creates a sender unless it exists, and returns its inbound key.
func (r *Ring) AddSender(ctx context.Context, request *kinesinv1.AddSenderRequest) (*kinesinv1.AddSenderResponse, error) {
	if !r.cfg.Inbound {
		return nil, errNoInbound
	}
	row, err := r.addSender(ctx, request.Name, request.Lambdas)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	sender := row.sender()
	return &kinesinv1.AddSenderResponse{Sender: row.view(), Key: r.SenderKeyText(&sender)}, nil
}

// ListSenders lists the senders by name, without their keys.
func (r *Ring) ListSenders(ctx context.Context, _ *kinesinv1.ListSendersRequest) (*kinesinv1.ListSendersResponse, error) {
	c, err := r.fresh(ctx)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	response := &kinesinv1.ListSendersResponse{}
	for i := range c.senders {
		response.Senders = append(response.Senders, c.senders[i].view())
	}
	return response, nil
}

// RevokeSender revokes a sender.
func (r *Ring) RevokeSender(ctx context.Context, request *kinesinv1.RevokeSenderRequest) (*kinesinv1.RevokeSenderResponse, error) {
	row, err := r.revokeSender(ctx, request.Name)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	return &kinesinv1.RevokeSenderResponse{Sender: row.view()}, nil
}

func (s *senderRow) view() *kinesinv1.InboundSender {
	return &kinesinv1.InboundSender{
		Name: s.name, Lambdas: s.Lambdas, Created: int64(s.Created), Revoked: int64(s.Revoked),
	}
}

// fresh reads the rows and returns them.
func (r *Ring) fresh(ctx context.Context) (content, error) {
	if err := r.lock(ctx); err != nil {
		return content{}, err
	}
	defer r.unlock()
	err := r.read(ctx)
	return r.known, err
}

// triesMax bounds how often a change is tried again because somebody else made one in between.
const triesMax = 4

var errChanged = api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the key ring was changed at the same time; try again")

// try makes a change of what the rows say now, and again while somebody else changes them in between.
func (r *Ring) try(ctx context.Context, change func() error) error {
	if err := r.lock(ctx); err != nil {
		return err
	}
	defer r.unlock()
	for range triesMax {
		if err := r.read(ctx); err != nil {
			return err
		}
		if err := change(); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return errChanged
}

// rotate adds a key, which seals after Overlap, and removes those that verify nothing any more. It refuses
// while the last key that was added does not seal yet, so that of two calls at once one adds a key.
func (r *Ring) rotate(ctx context.Context) (added keyRow, removed []keyRow, err error) {
	err = r.try(ctx, func() error {
		keys, gone, err := r.next(&r.known, r.cfg.Clock.Now())
		if err != nil {
			return err
		}
		row, err := encodeKeys(keys, r.known.version+1)
		if err == nil {
			err = r.cfg.Rows.PutControl(ctx, row)
		}
		if err != nil {
			return err
		}
		added, removed = keys[len(keys)-1], gone
		r.cfg.Log.InfoContext(ctx, "key added to the key ring", slog.Int("key", int(added.Number)),
			slog.Time("seals_from", added.SealsFrom.Time()), slog.Int("removed", len(removed)))
		r.removeFirst(ctx, removed)
		if err := r.read(ctx); err != nil {
			r.cfg.Log.WarnContext(ctx, "cannot read the key ring after a rotation; it is read again soon", slog.Any("error", err))
		}
		return nil
	})
	return added, removed, err
}

// next returns the keys after a rotation, of which the last is new.
func (r *Ring) next(c *content, now task.Instant) (keys, removed []keyRow, err error) {
	last := c.keys[len(c.keys)-1]
	if last.SealsFrom > now {
		return nil, nil, api.Errorf(kinesinv1.Reason_REASON_EXISTS,
			"key %d was added at %s and seals from %s on, when all servers know it; rotate again after that",
			last.Number, timeText(last.Created), timeText(last.SealsFrom))
	}
	if last.Number == task.KeyNumberMax {
		return nil, nil, api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED, "key %d is the last that there can be", last.Number)
	}
	gone := 0
	for i := range c.keys {
		if retired, is := c.retiredAt(i); is && now >= retired.Add(r.cfg.IDsFor) {
			gone = i + 1
		}
	}
	if keys, removed = slices.Clone(c.keys[gone:]), c.keys[:gone]; len(keys) >= KeysMax {
		retired, _ := c.retiredAt(gone)
		return nil, nil, api.Errorf(kinesinv1.Reason_REASON_IN_USE,
			"%d keys are kept, and no more are: the oldest, key %d, still verifies ids of tasks and may go from %s on; rotate again then",
			len(keys), keys[0].Number, timeText(retired.Add(r.cfg.IDsFor)))
	}
	return append(keys, keyRow{
		Number: last.Number + 1, Secret: newSecret(task.TokenKeyBytes), Created: now, SealsFrom: now.Add(Overlap),
	}), removed, nil
}

// removeFirst deletes the row with the first secret after the secret was removed from the ring. If that
// fails, the row stays, and nothing reads it.
func (r *Ring) removeFirst(ctx context.Context, removed []keyRow) {
	if len(removed) == 0 || removed[0].Number != task.FirstKey {
		return
	}
	row, err := r.cfg.Rows.Control(ctx, firstKind, firstName)
	if err == nil {
		err = r.cfg.Rows.DeleteControl(ctx, row)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		r.cfg.Log.WarnContext(ctx, "the row of a removed key stays", slog.Any("error", err))
	}
}

// addSender returns the sender with a name and lambdas; it creates the sender if there is none. Without
// lambdas it returns the one that there is.
func (r *Ring) addSender(ctx context.Context, name string, lambdas []string) (row senderRow, err error) {
	lambdas = slices.Compact(slices.Sorted(slices.Values(lambdas)))
	salt := newSecret(task.SenderSaltBytes)
	err = r.try(ctx, func() error {
		if have := r.known.sender(name); have != nil {
			row = *have
			return checkSame(have, lambdas)
		}
		row = senderRow{Form: rowsForm, Salt: salt, Lambdas: lambdas, Created: r.cfg.Clock.Now(), name: name, version: 1}
		if sender := row.sender(); sender.Validate() != nil {
			return refusal.Invalid("%v", sender.Validate())
		}
		if err := r.makeRoom(ctx); err != nil {
			return err
		}
		err := r.put(ctx, &row)
		if errors.Is(err, store.ErrConflict) && r.read(ctx) == nil && r.known.sender(name) == nil {
			return fmt.Errorf("%w: the row of sender %s cannot be read", store.ErrCorrupt, name)
		}
		return err
	})
	return row, err
}

// put stores a sender, and reads the rows.
func (r *Ring) put(ctx context.Context, s *senderRow) error {
	row, err := s.encode()
	if err == nil {
		err = r.cfg.Rows.PutControl(ctx, row)
	}
	if err != nil {
		return err
	}
	return r.read(ctx)
}

// checkSame refuses another sender under a name that is taken.
func checkSame(have *senderRow, lambdas []string) error {
	switch {
	case have.Revoked != 0:
		return api.Errorf(kinesinv1.Reason_REASON_EXISTS, "sender %s was revoked at %s: choose another name", have.name, timeText(have.Revoked))
	case len(lambdas) > 0 && !slices.Equal(have.Lambdas, lambdas):
		return api.Errorf(kinesinv1.Reason_REASON_EXISTS, "sender %s exists for lambdas %v: name the same ones, or choose another name", have.name, have.Lambdas)
	}
	return nil
}

// makeRoom deletes senders whose ids are no longer verified, and fails if there are too many others.
func (r *Ring) makeRoom(ctx context.Context) error {
	now, n := r.cfg.Clock.Now(), 0
	for i := range r.known.senders {
		s := &r.known.senders[i]
		if s.Revoked == 0 || now < s.Revoked.Add(r.cfg.IDsFor) {
			n++
			continue
		}
		if err := r.cfg.Rows.DeleteControl(ctx, store.Control{Kind: Kind, Name: senderPrefix + s.name, Version: s.version}); err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	if n >= SendersMax {
		return api.Errorf(kinesinv1.Reason_REASON_IN_USE, "%d senders have an inbound key, and no more may", n)
	}
	return nil
}

// revokeSender ends a sender for good. Its ids stay valid; its messages are no longer taken.
func (r *Ring) revokeSender(ctx context.Context, name string) (row senderRow, err error) {
	if err := task.CheckName("sender", name); err != nil {
		return row, refusal.Invalid("%v", err)
	}
	err = r.try(ctx, func() error {
		have := r.known.sender(name)
		if have == nil {
			return api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "no sender has that name: `kinesin inbound sender list` shows the names")
		}
		if row = *have; row.Revoked != 0 {
			return nil
		}
		row.Revoked, row.version = r.cfg.Clock.Now(), have.version+1
		return r.put(ctx, &row)
	})
	return row, err
}

func (c *content) sender(name string) *senderRow {
	for i := range c.senders {
		if c.senders[i].name == name {
			return &c.senders[i]
		}
	}
	return nil
}

func timeText(t task.Instant) string { return t.Time().UTC().Format(time.RFC3339) }
