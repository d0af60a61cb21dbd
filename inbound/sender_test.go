package inbound_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// sending is a fixture whose ring has two keys, the second of which seals, and two senders.
type sending struct {
	*buffered

	ring     *task.Keyring
	content  task.Ring
	shop     *task.InboundSealer // may send to mail only
	everyone *task.InboundSealer // of all lambdas
}

func runSending(t *testing.T, test func(s *sending)) {
	t.Helper()
	runSendingWith(t, nil, test)
}

func runSendingWith(t *testing.T, change func(*settings), test func(s *sending)) {
	t.Helper()
	s := &sending{content: task.Ring{Seals: 2}}
	for n := uint8(1); n <= 2; n++ {
		s.content.Keys = append(s.content.Keys, task.Key{Number: n, Secret: bytes.Repeat([]byte{n}, task.TokenKeyBytes)})
	}
	s.content.Senders = []task.InboundSender{
		{Name: "shop", Salt: make([]byte, task.SenderSaltBytes), Lambdas: []string{"mai*"}},
		{Name: "vendor", Salt: make([]byte, task.SenderSaltBytes), Lambdas: []string{"*"}},
	}
	var err error
	if s.ring, err = task.NewKeyring(s.content); err != nil {
		t.Fatal(err)
	}
	s.shop, s.everyone = s.keyOf(t, s.ring.SenderKeyText(&s.content.Senders[0])), s.keyOf(t, s.ring.Inbound().KeyText())
	runBuffered(t, func(c *settings) {
		c.InboundSealer = s.ring.Inbound()
		if change != nil {
			change(c)
		}
	}, func(b *buffered) {
		s.buffered = b
		if _, err := b.CreateLambda(b.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "pay"}}); err != nil {
			t.Fatal(err)
		}
		test(s)
	})
}

func (s *sending) keyOf(t *testing.T, text string) *task.InboundSealer {
	t.Helper()
	sealer, err := task.ParseInboundKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return sealer
}

// by returns a task under an id that a sender issued.
func (s *sending) by(sealer *task.InboundSealer, lambda string) *kinesinv1.BufferedTask {
	s.t.Helper()
	t := s.q1(time.Hour, func(t *kinesinv1.BufferedTask, k *task.InboundToken) {
		k.Lambda, t.Item.Lambda = lambda, lambda
		var err error
		if t.Id, err = sealer.Seal(*k); err != nil {
			s.t.Fatal(err)
		}
	})
	return t
}

func (s *sending) send(sealer *task.InboundSealer, tasks ...*kinesinv1.BufferedTask) {
	s.t.Helper()
	body, err := envelope.Seal(sealer, tasks, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.putBody(body)
}

func TestASenderSendsToItsLambdas(t *testing.T) {
	runSending(t, func(s *sending) {
		one, other := s.by(s.shop, "mail"), s.by(s.everyone, "pay")
		s.send(s.shop, one)
		s.send(s.everyone, other)
		s.consume()
		s.advance(5 * time.Second)
		if s.state(one.Id) != "scheduled" || s.state(other.Id) != "scheduled" || len(s.left) != 0 || s.memory.Len() != 0 {
			t.Errorf("%s, %s, %v", s.state(one.Id), s.state(other.Id), s.left)
		}
	})
}

// A sender chooses the id of the task of somebody else, which is the key of its row, for a task of its own
// lambda.
func TestASenderCannotTakeTheIDOfAnothersTask(t *testing.T) {
	runSending(t, func(s *sending) {
		theirs, own := s.by(s.everyone, "pay"), s.by(s.shop, "mail")
		of, err := s.everyone.Open(s.ctx, theirs.Id)
		if err != nil {
			t.Fatal(err)
		}
		if own.Id, err = s.shop.Seal(task.InboundToken{ID: of.ID, Due: of.Due, Lambda: "mail", Priority: of.Priority}); err != nil {
			t.Fatal(err)
		}
		s.send(s.everyone, theirs)
		s.send(s.shop, own)
		s.consume()
		s.advance(5 * time.Second)
		if r, err := s.Cancel(s.ctx, &kinesinv1.CancelRequest{Ids: []string{own.Id}}); err != nil || r.Results[0].Problem != nil {
			t.Fatal(r, err)
		}
		if s.state(own.Id) != "cancelled" || s.state(theirs.Id) != "scheduled" {
			t.Errorf("its own is %s, the other %s", s.state(own.Id), s.state(theirs.Id))
		}
	})
}

// A message that its sender may not send stays in the queue, is counted by its own reason, and takes no room
// of what was rejected.
func TestASenderOutsideItsLambdas(t *testing.T) {
	for name, c := range map[string]struct {
		why  string
		send func(s *sending) *kinesinv1.BufferedTask // a task that must not be stored
	}{
		"another lambda": {"sender_lambda", func(s *sending) *kinesinv1.BufferedTask {
			one := s.by(s.shop, "pay")
			s.send(s.shop, one)
			return one
		}},
		"with one of its own": {"sender_lambda", func(s *sending) *kinesinv1.BufferedTask {
			one := s.by(s.shop, "mail")
			s.send(s.shop, one, s.by(s.shop, "pay"))
			return one
		}},
		"an id of another lambda": {"sender_lambda", func(s *sending) *kinesinv1.BufferedTask {
			one := s.by(s.shop, "pay")
			one.Item.Lambda = "mail"
			s.send(s.shop, one)
			return one
		}},
		"the id of another sender": {"sender_lambda", func(s *sending) *kinesinv1.BufferedTask {
			one := s.by(s.everyone, "mail")
			s.send(s.shop, one)
			return one
		}},
		"an id of a server": {"sender_lambda", func(s *sending) *kinesinv1.BufferedTask {
			one := s.by(s.shop, "mail")
			one.Id = s.Sealer.Seal(task.Token{ID: task.NewID(s.clock.Now(), 1, 2), Due: start.Add(time.Hour), Partition: task.Partition{Lambda: s.lambda.Ref}})
			s.send(s.shop, one)
			return one
		}},
		"what is no envelope": {"sender_unreadable", func(s *sending) *kinesinv1.BufferedTask {
			s.putBody(s.shop.SealMessage([]byte("noise")))
			return s.by(s.shop, "mail")
		}},
		"an envelope of a newer version": {"sender_unreadable", func(s *sending) *kinesinv1.BufferedTask {
			one := s.by(s.shop, "mail")
			s.putBody(s.body(s.shop, envelope.Version+1, one))
			return one
		}},
		"a revoked sender": {"revoked_sender", func(s *sending) *kinesinv1.BufferedTask {
			one := s.by(s.shop, "mail")
			s.send(s.shop, one)
			s.content.Senders[0].Revoked = true
			return one
		}},
		"a sender that is gone": {"unsealed", func(s *sending) *kinesinv1.BufferedTask {
			one := s.by(s.shop, "mail")
			s.send(s.shop, one)
			s.content.Senders = s.content.Senders[1:]
			return one
		}},
		"a key that verifies ids only": {"rotated_key", func(s *sending) *kinesinv1.BufferedTask {
			one := s.by(s.shop, "mail")
			s.send(s.shop, one)
			s.content.Keys[1].IDsOnly = true
			s.content.Keys = append(s.content.Keys, task.Key{Number: 3, Secret: bytes.Repeat([]byte{3}, task.TokenKeyBytes)})
			s.content.Seals = 3
			return one
		}},
		"a key that was removed": {"rotated_key", func(s *sending) *kinesinv1.BufferedTask {
			one := s.by(s.everyone, "mail")
			s.send(s.everyone, one)
			s.content.Keys[1].Number, s.content.Seals = 3, 3
			return one
		}},
		"the first key, removed": {"rotated_key", func(s *sending) *kinesinv1.BufferedTask {
			one := s.q1(time.Hour, nil)
			s.send(s.seal, one)
			s.content.Keys = s.content.Keys[1:]
			return one
		}},
		"the sender's key, as for all": {"unsealed", func(s *sending) *kinesinv1.BufferedTask {
			forged := s.keyOf(s.t, "2."+s.shop.KeyText()[len("2.shop."):])
			one := s.by(forged, "mail")
			s.send(forged, one)
			return one
		}},
		"the sender's key, as another's": {"unsealed", func(s *sending) *kinesinv1.BufferedTask {
			forged := s.keyOf(s.t, "2.vendor."+s.shop.KeyText()[len("2.shop."):])
			one := s.by(forged, "pay")
			s.send(forged, one)
			return one
		}},
	} {
		runSending(t, func(s *sending) {
			bad := c.send(s)
			if err := s.ring.Set(s.content); err != nil {
				t.Fatal(err)
			}
			s.consume()
			s.advance(45 * time.Second)
			if s.left[c.why] != 2 || len(s.left) != 1 || s.unsealed != 2 || s.memory.Len() != 1 || s.consumed != 0 || s.troubles != 0 {
				t.Errorf("%s: left %v, %d told of, %d messages, %d consumed", name, s.left, s.unsealed, s.memory.Len(), s.consumed)
			}
			if len(s.rejected()) != 0 || len(s.aside) != 0 {
				t.Errorf("%s: rejected %v", name, s.rejected())
			}
			if got := s.state(bad.Id); got == "scheduled" {
				t.Errorf("%s: stored", name)
			}
		})
	}
}

// refused returns a task of a sender that is always rejected.
func (s *sending) refused(sealer *task.InboundSealer) *kinesinv1.BufferedTask {
	s.t.Helper()
	one := s.by(sealer, "mail")
	one.Item.Key = "a key"
	return one
}

// A sender that is limited to some lambdas cannot fill the room for what is rejected, which others need; and
// what a server sends again of its message counts as its own.
func TestASenderHasAPartOfTheRoomForRejectedTasks(t *testing.T) {
	const room, share, all = 40, 4, 20 // a tenth for each sender, half for all of them
	runSendingWith(t, func(c *settings) { c.Rejecting.Max = room }, func(s *sending) {
		vendor := s.keyOf(t, s.ring.SenderKeyText(&s.content.Senders[1]))
		for range share + 2 {
			s.send(s.shop, s.by(s.shop, "mail"), s.refused(s.shop)) // of which one is left is sent again
			s.send(vendor, s.refused(vendor))
		}
		s.consume()
		s.advance(time.Hour) // counts what is kept anew
		if n := len(s.rejected()); n != 2*share || s.left["sender_full"] == 0 || len(s.left) != 1 || s.memory.Len() != 4 || s.troubles != 0 {
			t.Fatalf("%d kept, want %d; %v, %d messages, %d pauses", n, 2*share, s.left, s.memory.Len(), s.troubles)
		}
		for n := range room - 2*share {
			s.putBody(s.everyone.SealMessage([]byte{byte(n), 0xff}))
		}
		s.advance(time.Hour)
		if n := len(s.rejected()); n != room {
			t.Errorf("%d kept, want %d: others have the rest of the room", n, room)
		}
	})
	runSendingWith(t, func(c *settings) { c.Rejecting.Max = room }, func(s *sending) {
		for n := range uint8(all) {
			s.content.Senders = append(s.content.Senders, task.InboundSender{
				Name: fmt.Sprint("team-", n), Salt: make([]byte, task.SenderSaltBytes), Lambdas: []string{"mail"},
			})
		}
		if err := s.ring.Set(s.content); err != nil {
			t.Fatal(err)
		}
		for i := range s.content.Senders {
			team := s.keyOf(t, s.ring.SenderKeyText(&s.content.Senders[i]))
			s.send(team, s.refused(team))
			s.send(team, s.refused(team))
		}
		s.consume()
		s.advance(time.Hour)
		if n := len(s.rejected()); n != all {
			t.Errorf("%d kept of all senders, want %d", n, all)
		}
	})
}

// How often a server sent a message again is what the message says, but not that of a sender: a task of an
// unknown lambda would be rejected at once.
func TestASendersTriesAreNotBelieved(t *testing.T) {
	runSending(t, func(s *sending) {
		for sealer, rejected := range map[*task.InboundSealer]int{s.shop: 0, s.everyone: 1} {
			body, err := envelope.Seal(sealer, []*kinesinv1.BufferedTask{s.by(sealer, "mailing")}, 1000)
			if err != nil {
				t.Fatal(err)
			}
			s.putBody(body)
			s.drain(time.Second)
			if n := len(s.rejected()); n != rejected {
				t.Errorf("by sender %q: %d rejected, want %d", sealer.Sender(), n, rejected)
			}
			for _, one := range s.rejected() {
				if _, err := s.DeleteRejected(s.ctx, &kinesinv1.DeleteRejectedRequest{Names: []string{one.Name}}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A server seals its messages in the buffer by the newest key, and they are read after the next rotation.
func TestTheBufferThroughARotation(t *testing.T) {
	runSending(t, func(s *sending) {
		id := s.accepted(in(time.Hour))[0]
		if s.memory.Len() != 1 {
			t.Fatalf("%d messages", s.memory.Len())
		}
		s.content.Keys = append(s.content.Keys, task.Key{Number: 3, Secret: bytes.Repeat([]byte{3}, task.TokenKeyBytes)})
		s.content.Seals = 3
		if err := s.ring.Set(s.content); err != nil {
			t.Fatal(err)
		}
		s.consume()
		s.advance(5 * time.Second)
		if got := s.state(id); got != "scheduled" || len(s.left) != 0 {
			t.Errorf("%s, %v", got, s.left)
		}
	})
}
