package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

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
func changeDeadLetters(action string) func(c *call, r *kinesinv1.ChangeDeadLettersRequest) (int, *kinesinv1.ChangeDeadLettersResponse, error) {
	return func(c *call, r *kinesinv1.ChangeDeadLettersRequest) (int, *kinesinv1.ChangeDeadLettersResponse, error) {
		r.Action, r.Lambda = action, c.vars["lambda"]
		response, err := c.DeadLetters.ChangeDeadLetters(c.r.Context(), r)
		if response.GetMore() || len(response.GetQueues()) > 0 {
			return http.StatusAccepted, response, err
		}
		return http.StatusOK, response, err
	}
}
