package guard

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
)

const actReadChain = "chain.read"

type chains service[kinesinv1connect.ChainServiceHandler]

// Chains guards a ChainService.
func (g *Guard) Chains(next kinesinv1connect.ChainServiceHandler) kinesinv1connect.ChainServiceHandler {
	return chains{Guard: g, next: next}
}

// GetChain needs read on the first task of the chain. Of others that the caller may not read it says only
// that they are there.
func (s chains) GetChain(ctx context.Context, r *kinesinv1.GetChainRequest) (*kinesinv1.GetChainResponse, error) {
	id, err := s.allowChain(ctx, actReadChain, r.GetId(), access.Read)
	if err != nil {
		return nil, err
	}
	response, err := s.next.GetChain(ctx, &kinesinv1.GetChainRequest{Id: id})
	if err == nil {
		err = s.check(ctx, actReadChain, response.GetRoot(), errNoTask, access.Read)
	}
	if err != nil {
		return nil, s.unseen(ctx, err, errNoTask)
	}
	hide(access.From(ctx), response.GetRoot())
	return response, nil
}

// allowChain returns the whole id of the task that names a chain, if the caller may do what the verb is for with it.
func (s chains) allowChain(ctx context.Context, action, id string, verb access.Verb) (whole string, err error) {
	of, err := s.whole(ctx, &kinesinv1.GetRequest{Ids: []string{id}})
	if err != nil {
		return "", err
	}
	return of.GetIds()[0], s.allowNamed(ctx, action, of, verb)
}

// hide leaves out what a caller may not read.
func hide(c access.Caller, t *kinesinv1.ChainTask) {
	if !c.Grants.AllowIn(access.Read, t.GetLambda(), t.GetCollection()) {
		t.Id, t.Lambda, t.Collection, t.Error, t.WaitsFor = "", "", "", "", ""
	} else if t.GetState() == "held" && !c.Grants.Allow(access.Read, t.GetLambda()) { // by a task of any collection
		t.Error = "not created: its key was held by another task"
	}
	for _, next := range t.GetFollowups() {
		hide(c, next)
	}
}

// verbs are what is needed on each task of a chain to change it.
var verbs = map[string]access.Verb{ //nolint:gochecknoglobals // a table
	"cancel": access.Cancel, "pause": access.Operate, "resume": access.Operate, "redrive": access.Operate, "extend": access.Schedule,
}

// ControlChain needs its verb on each task of the chain that is there.
func (s chains) ControlChain(ctx context.Context, r *kinesinv1.ControlChainRequest) (*kinesinv1.ControlChainResponse, error) {
	verb, known := verbs[r.GetAction()]
	if !known {
		return s.next.ControlChain(ctx, r) // which refuses it
	}
	c, action := access.From(ctx), "chain."+r.GetAction()
	id, err := s.allowChain(ctx, action, r.GetId(), verb)
	if err != nil {
		return nil, err
	}
	r = proto.CloneOf(r)
	r.Id = id
	shown, err := s.next.GetChain(ctx, &kinesinv1.GetChainRequest{Id: id})
	if err == nil {
		err = s.check(ctx, action, shown.GetRoot(), errNoTask, verb)
	}
	if err != nil {
		return nil, s.unseen(ctx, err, errNoTask)
	}
	target := shown.GetRoot().GetLambda()
	if err := s.allowEach(ctx, action, verb, shown.GetRoot()); err != nil {
		return nil, err
	}
	if shown.GetMore() && !c.Grants.AllowAll(verb) {
		return nil, s.deny(c, action, verb, "") // there are tasks that were not looked at
	}
	response, err := s.next.ControlChain(ctx, r)
	s.note(ctx, audit.Record{Action: action, Target: target, Count: response.GetChanged() + response.GetTold()}, err)
	return response, err
}

// allowEach refuses a verb on the tasks of a chain that are there. Of one that the caller may not see it does
// not say whose it is.
func (s chains) allowEach(ctx context.Context, action string, verb access.Verb, t *kinesinv1.ChainTask) error {
	if t.GetId() != "" {
		if err := s.check(ctx, action, t, errForeignFollowUp, verb); err != nil {
			return err
		}
	}
	for _, next := range t.GetFollowups() {
		if err := s.allowEach(ctx, action, verb, next); err != nil {
			return err
		}
	}
	return nil
}

var errForeignFollowUp = api.Errorf(kinesinv1.Reason_REASON_PERMISSION_DENIED, "a task of the chain is not among those that you may read, so the chain cannot be changed as a whole: change its tasks by their own ids")
