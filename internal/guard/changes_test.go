package guard_test

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

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
