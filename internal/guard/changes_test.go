package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/guard"
)

// passed keeps the request that it got last.
type passed struct {
	kinesinv1connect.UnimplementedTaskServiceHandler

	got proto.Message
}

func (p *passed) Get(_ context.Context, r *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
	p.got = r
	return &kinesinv1.GetResponse{}, nil
}

func (p *passed) Wait(_ context.Context, r *kinesinv1.WaitRequest) (*kinesinv1.GetResponse, error) {
	p.got = r
	return &kinesinv1.GetResponse{}, nil
}

func (p *passed) Cancel(_ context.Context, r *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error) {
	p.got = r
	return &kinesinv1.CancelResponse{}, nil
}

func (p *passed) Reschedule(_ context.Context, r *kinesinv1.RescheduleRequest) (*kinesinv1.ChangeResponse, error) {
	p.got = r
	return &kinesinv1.ChangeResponse{}, nil
}

func (p *passed) Redrive(_ context.Context, r *kinesinv1.RedriveRequest) (*kinesinv1.ChangeResponse, error) {
	p.got = r
	return &kinesinv1.ChangeResponse{}, nil
}

func (p *passed) Update(_ context.Context, r *kinesinv1.UpdateRequest) (*kinesinv1.ChangeResponse, error) {
	p.got = r
	return &kinesinv1.ChangeResponse{}, nil
}

// passedChains is passed for chains.
type passedChains struct{ *passed }

func (p passedChains) GetChain(_ context.Context, r *kinesinv1.GetChainRequest) (*kinesinv1.GetChainResponse, error) {
	p.got = r
	return &kinesinv1.GetChainResponse{}, nil
}

func (p passedChains) ControlChain(_ context.Context, r *kinesinv1.ControlChainRequest) (*kinesinv1.ControlChainResponse, error) {
	p.got = r
	return &kinesinv1.ControlChainResponse{}, nil
}

// fill gives each field a value, except for lists, of which it fills the first element.
func fill(m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		switch f := m.Descriptor().Fields().Get(i); {
		case f.IsList() && f.Kind() == protoreflect.MessageKind:
			fill(m.Mutable(f).List().AppendMutable().Message())
		case f.IsList():
			m.Mutable(f).List().Append(protoreflect.ValueOfString("one"))
		case f.Kind() == protoreflect.MessageKind:
			fill(m.Mutable(f).Message())
		case f.Kind() == protoreflect.BytesKind:
			m.Set(f, protoreflect.ValueOfBytes([]byte("some")))
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString("some"))
		case f.Kind() == protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		case f.Kind() == protoreflect.Int64Kind:
			m.Set(f, protoreflect.ValueOfInt64(7))
		case f.Kind() == protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOfUint32(7))
		case f.Kind() == protoreflect.Uint64Kind:
			m.Set(f, protoreflect.ValueOfUint64(7))
		default:
			panic("fill does not know the kind of " + string(f.FullName()))
		}
	}
}

// What a call names by the beginnings of ids goes on, is checked and is recorded by the whole ids.
func TestCallsGoOnWithWholeIDs(t *testing.T) {
	ctx := access.With(t.Context(), access.Caller{Identity: access.Anonymous()})
	refused := api.Errorf(kinesinv1.Reason_REASON_INVALID, "two begin so")
	of := &guard.Guard{WholeIDs: func(_ context.Context, ids []string) ([]string, error) {
		if ids[0] == "k1w" {
			return []string{"k1whole"}, nil
		}
		return nil, refused
	}}
	var next passed
	g, chains := of.Tasks(&next), of.Chains(passedChains{&next})
	for _, id := range []string{"k1w", "k1"} {
		ids := []string{id}
		for what, call := range map[string]func() error{
			"get":        func() error { _, err := g.Get(ctx, &kinesinv1.GetRequest{Ids: ids}); return err },
			"payload":    func() error { _, err := g.Get(ctx, &kinesinv1.GetRequest{Ids: ids, WithPayload: true}); return err },
			"wait":       func() error { _, err := g.Wait(ctx, &kinesinv1.WaitRequest{Ids: ids}); return err },
			"cancel":     func() error { _, err := g.Cancel(ctx, &kinesinv1.CancelRequest{Ids: ids}); return err },
			"reschedule": func() error { _, err := g.Reschedule(ctx, &kinesinv1.RescheduleRequest{Ids: ids}); return err },
			"redrive":    func() error { _, err := g.Redrive(ctx, &kinesinv1.RedriveRequest{Ids: ids}); return err },
			"update": func() error {
				_, err := g.Update(ctx, &kinesinv1.UpdateRequest{Updates: []*kinesinv1.TaskUpdate{{Id: id}}})
				return err
			},
			"chain": func() error { _, err := chains.GetChain(ctx, &kinesinv1.GetChainRequest{Id: id}); return err },
			"cancel a chain": func() error {
				_, err := chains.ControlChain(ctx, &kinesinv1.ControlChainRequest{Id: id, Action: "cancel"})
				return err
			},
		} {
			next.got = nil
			err := call()
			if id == "k1" && (!errors.Is(err, refused) || next.got != nil) {
				t.Errorf("%s: passed on as %v: %v", what, next.got, err)
			}
			if passed := fmt.Sprint(next.got); id == "k1w" && (err != nil || !strings.Contains(passed, `"k1whole"`)) {
				t.Errorf("%s: passed on as %v: %v", what, passed, err)
			}
		}
	}
}

// A change goes on with all that its caller asked for.
func TestAChangeIsPassedOnWhole(t *testing.T) {
	var next passed
	ctx := access.With(t.Context(), access.Caller{Identity: access.Anonymous()})
	g := (&guard.Guard{LambdaOf: func(context.Context, string) (string, error) { return "mail", nil }}).Tasks(&next)
	for _, request := range []proto.Message{&kinesinv1.CancelRequest{}, &kinesinv1.RescheduleRequest{}, &kinesinv1.RedriveRequest{}, &kinesinv1.UpdateRequest{}} {
		fill(request.ProtoReflect())
		want := proto.Clone(request)
		var err error
		switch r := request.(type) {
		case *kinesinv1.CancelRequest:
			_, err = g.Cancel(ctx, r)
		case *kinesinv1.RescheduleRequest:
			_, err = g.Reschedule(ctx, r)
		case *kinesinv1.RedriveRequest:
			_, err = g.Redrive(ctx, r)
		case *kinesinv1.UpdateRequest:
			_, err = g.Update(ctx, r)
		}
		if err != nil || !proto.Equal(next.got, want) {
			t.Errorf("%v: passed on as %v: %v", want, next.got, err)
		}
	}
}
