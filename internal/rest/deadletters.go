package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

type deadLetterRequest struct {
	Priority string `json:"priority,omitempty" jsonschema:"only of this priority"`
	Pace     uint32 `json:"pace,omitempty" jsonschema:"messages a second, at most 500; 0: as fast as SQS"`
	Began    moment `json:"began,omitzero" jsonschema:"of the answer before, to go on"`
	Purge    bool   `json:"purge,omitempty" jsonschema:"of delete: have SQS empty the queues, within a minute"`
}

func listDeadLetters(c *call, _ *none) (int, *kinesinv1.ListDeadLettersResponse, error) {
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
	return http.StatusOK, response, err
}

func countDeadLetters(c *call, _ *none) (int, *kinesinv1.CountDeadLettersResponse, error) {
	response, err := c.DeadLetters.CountDeadLetters(c.r.Context(), &kinesinv1.CountDeadLettersRequest{Lambda: c.vars["lambda"], Priority: c.query.Get("priority")})
	return http.StatusOK, response, err
}

// changeDeadLetters returns the function of an action. It answers 202 when the caller has to call again, or
// SQS to go on.
func changeDeadLetters(action string) func(c *call, r *deadLetterRequest) (int, *kinesinv1.ChangeDeadLettersResponse, error) {
	return func(c *call, r *deadLetterRequest) (int, *kinesinv1.ChangeDeadLettersResponse, error) {
		response, err := c.DeadLetters.ChangeDeadLetters(c.r.Context(), &kinesinv1.ChangeDeadLettersRequest{
			Action: action, Lambda: c.vars["lambda"], Priority: r.Priority, Pace: r.Pace, Began: int64(r.Began), Purge: r.Purge,
		})
		if response.GetMore() || len(response.GetQueues()) > 0 {
			return http.StatusAccepted, response, err
		}
		return http.StatusOK, response, err
	}
}
