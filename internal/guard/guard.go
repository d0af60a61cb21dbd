// Package guard stands between the wire and the roles: it refuses what the grants of a caller do not allow,
// leaves out of lists what the caller may not see, and notes acts in the audit log.
//
// Each service has a type here with a method for each of its procedures, so that a procedure without a policy
// does not compile. A method whose rule is verbs on a lambda, on all of them, or on an object with a name, is a
// call of invoke, or, for an act that the audit log has, of record or recordChange.
package guard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// Guard checks calls. LambdaOf is required.
type Guard struct {
	// LambdaOf returns the name of the lambda of a task by its public id; task.ErrBadID for one that was not
	// issued here.
	LambdaOf func(ctx context.Context, id string) (string, error)
	// WholeIDs returns ids with each beginning of one replaced by the id of the only task that it fits, of those that the
	// caller may read. nil: no call may shorten an id.
	WholeIDs func(ctx context.Context, ids []string) ([]string, error)
	// Where returns the lambdas of which a filter may select tasks; an error for one that cannot be read.
	Where func(expression string) (lambdas []string, err error)
	// Audit is nil where nothing is recorded.
	Audit *audit.Log

	waits waits
}

// whole returns a request that names the same tasks by their whole ids. All calls that name tasks begin with it, so
// that what is allowed and recorded is about the tasks that are meant.
func (g *Guard) whole(ctx context.Context, r named) (*kinesinv1.GetRequest, error) {
	ids := r.GetIds()
	if g.WholeIDs != nil {
		var err error
		if ids, err = g.WholeIDs(ctx, ids); err != nil {
			return nil, err
		}
	}
	return &kinesinv1.GetRequest{Ids: ids, Keys: r.GetKeys()}, nil
}

// wholeID replaces the beginning of the id of a job or a group by the only id that begins so, of all that the caller may read.
func wholeID(id *string, thing string, all func() ([]string, error)) error {
	if !task.IsShortenedUUID(*id) {
		return nil
	}
	if err := refusal.CheckShort(*id, thing); err != nil {
		return err
	}
	ids, err := all()
	if err != nil {
		return err
	}
	*id, err = refusal.WholeID(*id, thing, slices.DeleteFunc(ids, func(other string) bool { return !strings.HasPrefix(other, *id) }))
	return err
}

// object is what a caller acts on: a task, or what tasks come from or belong to, such as a cron or a group. It
// is of a lambda, and in a collection, or in none.
type object interface {
	GetLambda() string
	GetCollection() string
}

// of is an object by its lambda and collection.
type of struct{ lambda, collection string }

func (o of) GetLambda() string { return o.lambda }

func (o of) GetCollection() string { return o.collection }

// check decides whether a caller may use verbs on an object; all other decisions about a single one are made
// of it. For who may not read the object, and use none of the verbs on it, the answer is absent, as it is when
// there is no such object; nil: it is the caller that names lambda and collection. A change is checked with
// the object as it is, and with the object as it is to be.
func (g *Guard) check(ctx context.Context, action string, o object, absent error, verbs ...access.Verb) error {
	c, lambda, collection := access.From(ctx), o.GetLambda(), o.GetCollection()
	may := func(v access.Verb) bool { return c.Grants.AllowIn(v, lambda, collection) }
	for _, v := range verbs {
		if may(v) {
			continue
		}
		refusal := g.deny(c, action, v, nameIn(c, v, lambda, collection))
		if absent != nil && !may(access.Read) && !slices.ContainsFunc(verbs, may) {
			return absent
		}
		return refusal
	}
	return nil
}

// finder returns the lambda and the collection of an object by its name.
type finder func(ctx context.Context, name string) (lambda, collection string, err error)

// checkNamed is check for an object that is found by its name.
func (g *Guard) checkNamed(ctx context.Context, action string, find finder, name string, absent error, verbs ...access.Verb) (of, error) {
	lambda, collection, err := find(ctx, name)
	if err != nil {
		return of{}, g.unseen(ctx, err, absent)
	}
	o := of{lambda, collection}
	return o, g.check(ctx, action, o, absent, verbs...)
}

// unseen returns absent instead of an error that says that there is no such object: who may not read
// everything learns in the same words that there is none, and of one that it may not see.
func (g *Guard) unseen(ctx context.Context, err, absent error) error {
	if api.ProblemOf(err).GetReason() == kinesinv1.Reason_REASON_NOT_FOUND && !access.From(ctx).Grants.AllowAll(access.Read) {
		return absent
	}
	return err
}

// nameIn names what a verb is missing on: a lambda, or one collection of it.
func nameIn(c access.Caller, v access.Verb, lambda, collection string) string {
	if !c.Grants.AllowSome(v, lambda) {
		return lambda
	}
	if collection == "" {
		return lambda + " for tasks without a collection"
	}
	return lambda + " in collection " + collection
}

// allow refuses a verb on a lambda unless it is granted in all its collections.
func (g *Guard) allow(ctx context.Context, action string, v access.Verb, lambda string) error {
	if c := access.From(ctx); !c.Grants.Allow(v, lambda) {
		return g.deny(c, action, v, lambda)
	}
	return nil
}

// allowSome refuses a verb on a lambda unless it is granted in one of its collections at least.
func (g *Guard) allowSome(ctx context.Context, action string, v access.Verb, lambda string) error {
	if c := access.From(ctx); !c.Grants.AllowSome(v, lambda) {
		return g.deny(c, action, v, lambda)
	}
	return nil
}

// allowReading is allowSome for a call that may name no lambda: what its caller may not read is left out of the
// answer then.
func (g *Guard) allowReading(ctx context.Context, action, lambda string) error {
	if lambda == "" {
		return nil
	}
	return g.allowSome(ctx, action, access.Read, lambda)
}

// allowAll refuses verbs that are not granted on all lambdas. The record of a refusal has the name of what the
// act is on, if that has one.
func (g *Guard) allowAll(ctx context.Context, action, name string, verbs ...access.Verb) error {
	c := access.From(ctx)
	for _, v := range verbs {
		if !c.Grants.AllowAll(v) {
			return g.denyOf(c, action, cmp.Or(name, everything), v, "")
		}
	}
	return nil
}

// everything is the target of a refused act that is on no lambda in particular.
const everything = "*"

// deny returns the refusal of a verb on a lambda, without one on all of them, and notes it.
func (g *Guard) deny(c access.Caller, action string, v access.Verb, lambda string) error {
	return g.denyOf(c, action, cmp.Or(lambda, everything), v, lambda)
}

func (g *Guard) denyOf(c access.Caller, action, target string, v access.Verb, lambda string) error {
	g.noteOften(c, audit.Record{Action: action, Target: target, Outcome: audit.Denied})
	return api.Errorf(kinesinv1.Reason_REASON_PERMISSION_DENIED, "%v", c.Denied(v, lambda))
}

// note records an act that is done, with its outcome.
func (g *Guard) note(ctx context.Context, r audit.Record, err error) {
	if g.Audit == nil {
		return
	}
	c := access.From(ctx)
	r.Identity, r.From, r.Outcome, r.After = c.Name, c.Host(), outcomeOf(err), withReason(r.After, c.Reason)
	g.Audit.Note(ctx, r)
}

// withReason adds the reason of a caller to what a record says of a change, which is a JSON object or empty.
func withReason(after, reason string) string {
	if reason == "" {
		return after
	}
	text, _ := json.Marshal(map[string]string{"reason": reason}) // of text
	if rest, isObject := strings.CutPrefix(after, "{"); isObject && rest != "}" {
		return string(text[:len(text)-1]) + "," + rest
	}
	return string(text)
}

func (g *Guard) noteOften(c access.Caller, r audit.Record) {
	if g.Audit == nil {
		return
	}
	r.Identity, r.From, r.After = c.Name, c.Host(), withReason(r.After, c.Reason)
	g.Audit.NoteOften(r)
}

// Read refuses a reader of what is about the whole installation, such as the metrics.
func (g *Guard) Read(ctx context.Context, path string, v access.Verb) error {
	return g.allowAll(ctx, "read", path, v)
}

// Foreign notes that a caller was refused the worker of another identity.
func (g *Guard) Foreign(ctx context.Context, worker string) {
	g.noteOften(access.From(ctx), audit.Record{Action: "worker.lease", Target: worker, Outcome: audit.Denied})
}

func outcomeOf(err error) string {
	if err == nil {
		return audit.OK
	}
	text := api.ProblemOf(err).GetText()
	if errors.Is(err, api.ErrPermissionDenied) {
		return audit.Denied
	}
	return audit.Failed + text
}
