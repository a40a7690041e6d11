package web

import (
	"net/http"
	"os"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/inspection"
	"github.com/oacp-go/oacp/internal/sibling"
	"github.com/oacp-go/oacp/mailbox/doctor"
)

// A diagnosis is the view model of what oacp doctor reports. The page repairs nothing.
type diagnosis struct {
	doctor.Report
	// Problem says why findings may be missing.
	Problem string
}

func (s *Server) doctorPage(r *http.Request) (page, error) {
	var v diagnosis
	v.Add(doctor.InspectMachine()...)
	err := inspection.Workspace(r.Context(), s.w, &v.Report, inspection.Options{
		WorkingDir: s.options.WorkingDir, Getenv: os.Getenv, Contract: sibling.Find("contract"), Now: time.Now(),
	})
	if err != nil {
		v.Problem = failure.OneLine(err.Error())
	}
	return page{Title: "Doctor", Template: "doctor", Section: "doctor", Content: v}, r.Context().Err()
}
