package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

type deadLetter struct {
	ID           string `json:"id" jsonschema:"of its task; the message id of SQS if it is not of a task of this lambda"`
	MessageID    string `json:"message_id"`
	Priority     string `json:"priority"`
	Due          moment `json:"due,omitzero"`
	Sent         moment `json:"sent,omitzero" jsonschema:"when it was put on the queue of the lambda"`
	Receives     uint32 `json:"receives" jsonschema:"by consumers, and by lists"`
	PayloadBytes uint32 `json:"payload_bytes"`

	payload
}

type deadLetterList struct {
	Messages []deadLetter `json:"messages"`
	More     bool         `json:"more,omitempty" jsonschema:"there may be more than these"`
}

type deadLetterQueue struct {
	Priority    string          `json:"priority"`
	Source      string          `json:"source" jsonschema:"SQS queue of the lambda"`
	Name        string          `json:"name" jsonschema:"SQS queue with its dead letters"`
	ReceivesMax uint32          `json:"receives_max" jsonschema:"how often a message is received before it goes there"`
	Count       int64           `json:"count,omitempty" jsonschema:"about"`
	Move        *deadLetterMove `json:"move,omitempty" jsonschema:"the latest move of SQS"`
}

type deadLetterMove struct {
	State   string `json:"state" jsonschema:"running, completed, cancelling, cancelled, failed or unknown"`
	Moved   int64  `json:"moved" jsonschema:"messages, about"`
	Total   int64  `json:"total" jsonschema:"messages when it began, about"`
	Started moment `json:"started,omitzero"`
	Problem string `json:"problem,omitempty"`
}

type deadLetterCount struct {
	Count  int64             `json:"count" jsonschema:"about"`
	Exact  bool              `json:"exact" jsonschema:"always false: SQS says about how many there are"`
	Queues []deadLetterQueue `json:"queues"`
}

type deadLetterRequest struct {
	Priority string `json:"priority,omitempty" jsonschema:"only of this priority"`
	Pace     uint32 `json:"pace,omitempty" jsonschema:"messages a second, at most 500; 0: as fast as SQS"`
	Began    moment `json:"began,omitzero" jsonschema:"of the answer before, to go on"`
	Purge    bool   `json:"purge,omitempty" jsonschema:"of delete: have SQS empty the queues, within a minute"`
}

type deadLettersChanged struct {
	Outcomes map[string]int64  `json:"outcomes" jsonschema:"messages that this call changed: redriven or deleted"`
	More     bool              `json:"more,omitempty" jsonschema:"call again, with began"`
	Began    moment            `json:"began"`
	Queues   []deadLetterQueue `json:"queues,omitempty" jsonschema:"of a redrive that SQS has begun; count says how far it is"`
}

func deadLetterQueuesOf(all []*kinesinv1.DeadLetterQueue) []deadLetterQueue {
	views := make([]deadLetterQueue, len(all))
	for i, q := range all {
		views[i] = deadLetterQueue{Priority: q.GetPriority(), Source: q.GetSource(), Name: q.GetName(), ReceivesMax: q.GetReceivesMax(), Count: q.GetCount()}
		if m := q.GetMove(); m != nil {
			views[i].Move = &deadLetterMove{m.GetState(), m.GetMoved(), m.GetTotal(), moment(m.GetStarted()), m.GetProblem()}
		}
	}
	return views
}

func listDeadLetters(c *call, _ *none) (int, *deadLetterList, error) {
	limit, err := c.number("limit", 1000)
	if err != nil {
		return 0, nil, err
	}
	withPayload, err := c.flag("payload")
	if err != nil {
		return 0, nil, err
	}
	response, err := c.DeadLetters.ListDeadLetters(c.r.Context(), &kinesinv1.ListDeadLettersRequest{
		Lambda: c.vars["lambda"], Priority: c.query.Get("priority"), Limit: limit, Payload: withPayload,
	})
	if err != nil {
		return 0, nil, err
	}
	list := &deadLetterList{Messages: make([]deadLetter, len(response.GetMessages())), More: response.GetMore()}
	for i, m := range response.GetMessages() {
		list.Messages[i] = deadLetter{
			ID: m.GetId(), MessageID: m.GetMessageId(), Priority: m.GetPriority(), Due: moment(m.GetDue()), Sent: moment(m.GetSent()),
			Receives: m.GetReceives(), PayloadBytes: m.GetPayloadBytes(),
		}
		if withPayload {
			list.Messages[i].payload = payloadOf(m.GetPayload(), nil)
		}
	}
	return http.StatusOK, list, nil
}

func countDeadLetters(c *call, _ *none) (int, *deadLetterCount, error) {
	response, err := c.DeadLetters.CountDeadLetters(c.r.Context(), &kinesinv1.CountDeadLettersRequest{Lambda: c.vars["lambda"], Priority: c.query.Get("priority")})
	return http.StatusOK, &deadLetterCount{Count: response.GetCount(), Queues: deadLetterQueuesOf(response.GetQueues())}, err
}

// changeDeadLetters returns the function of an action. It answers 202 when the caller has to call again, or
// SQS to go on.
func changeDeadLetters(action string) func(c *call, r *deadLetterRequest) (int, *deadLettersChanged, error) {
	return func(c *call, r *deadLetterRequest) (int, *deadLettersChanged, error) {
		response, err := c.DeadLetters.ChangeDeadLetters(c.r.Context(), &kinesinv1.ChangeDeadLettersRequest{
			Action: action, Lambda: c.vars["lambda"], Priority: r.Priority, Pace: r.Pace, Began: int64(r.Began), Purge: r.Purge,
		})
		if err != nil {
			return 0, nil, err
		}
		changed := &deadLettersChanged{response.GetOutcomes(), response.GetMore(), moment(response.GetBegan()), deadLetterQueuesOf(response.GetQueues())}
		if changed.Outcomes == nil {
			changed.Outcomes = map[string]int64{}
		}
		if changed.More || len(changed.Queues) > 0 {
			return http.StatusAccepted, changed, nil
		}
		return http.StatusOK, changed, nil
	}
}
