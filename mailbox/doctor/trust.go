package doctor

import (
	"errors"
	"io/fs"

	"gopkg.in/yaml.v3"
)

// trust checks that the files that say whose signatures are trusted can be read.
func (i *inspection) trust() {
	i.category = categoryTrust
	before := len(i.findings)
	i.trustFile("trust-catalog", "trust/catalog.yaml")
	for _, agent := range i.agents {
		i.trustFile("trust-pins", agentsName+"/"+string(agent)+"/trust/allowed_signers.yaml")
	}
	if len(i.findings) == before {
		i.add("trust-root", SeveritySkipped, "", "there are no trust files: messages here are not signed")
	}
}

func (i *inspection) trustFile(name, file string) {
	data, err := i.read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var content map[string]any
	if err == nil {
		err = yaml.Unmarshal(data, &content)
	}
	if err != nil {
		i.add(name+"-unreadable", SeverityError, "", "%s: %v", file, err)
		return
	}
	i.add(name+"-loaded", SeverityOK, "", "%s can be read", file)
}
