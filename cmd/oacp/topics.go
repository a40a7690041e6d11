package main

func typesTopic() string {
	return `
types - message types, and what answers each

   type                 says                   is answered by
   question             tell me                any type but question
   task_request         do this                any but notification, question,
                                               task_request, review_request,
                                               handoff, brainstorm_request
   review_request       review this            review_feedback, review_lgtm
   review_feedback      this wants a change    review_addressed, review_lgtm,
                                               a new review_request
   review_addressed     changed, look again    review_feedback, review_lgtm
   handoff              take this over         handoff_complete
   brainstorm_request   give me ideas          brainstorm_followup
   notification         this has happened      wants no answer
   follow_up            this can wait          wants no answer
   review_lgtm          the review has passed  wants no answer
   handoff_complete     I took it over, done   wants no answer
   brainstorm_followup  these are my ideas     wants no answer

oacp reply chooses the type of the answer, unless --type names another: to a
task_request a notification, which --ack makes final. A final reply of any type
but question answers. oacp owed lists requests without an answer; oacp status ID
shows the message that answered one.

handoff, handoff_complete, review_feedback and follow_up have bodies with
fields: oacp send --template handoff prints one to fill in. A workspace can
define schemas for more types.
`
}
