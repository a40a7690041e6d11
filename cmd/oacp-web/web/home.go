package web

import (
	"net/http"
)

// A home is the view model of the first page.
type home struct{}

func (s *Server) homePage(r *http.Request) (page, error) {
	return page{Title: "Home", template: "home", Section: "home", Content: home{}}, nil
}
