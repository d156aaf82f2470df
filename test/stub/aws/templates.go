package aws

import (
	"net/http"
	"strconv"
	"strings"
)

// templateActions are those on launch templates.
func (s *Server) templateActions() map[string]func(*request) (*answer, *failure) {
	return map[string]func(*request) (*answer, *failure){
		"CreateLaunchTemplate": s.createTemplate, "CreateLaunchTemplateVersion": s.createTemplateVersion, "ModifyLaunchTemplate": s.modifyTemplate,
		"DeleteLaunchTemplate": s.deleteTemplate, "DescribeLaunchTemplateVersions": s.describeTemplateVersions,
	}
}

// echo turns parameters into the fields that EC2 describes them with: BlockDeviceMapping.1.Ebs becomes
// blockDeviceMappingSet/item/ebs.
func echo(parameters tree) tree {
	out := tree{}
	for name, value := range parameters {
		inner, nested := value.(tree)
		if !nested {
			out[first(name)] = value
			continue
		}
		if _, numbered := inner["1"]; numbered {
			items := []any{}
			for _, member := range list(parameters, name) {
				if fields, ok := member.(tree); ok {
					items = append(items, echo(fields))
				} else {
					items = append(items, member)
				}
			}
			out[first(name)+"Set"] = items
			continue
		}
		out[first(name)] = echo(inner)
	}
	return out
}

func (s *Server) createTemplate(r *request) (*answer, *failure) {
	if s.inUse("LaunchTemplates", "launchTemplateName", r.text("LaunchTemplateName"), nil) != nil {
		return nil, refuse(http.StatusBadRequest, "InvalidLaunchTemplateName.AlreadyExistsException", "there is a template %s", r.text("LaunchTemplateName"))
	}
	data, _ := r.form["LaunchTemplateData"].(tree)
	template := s.newThing("LaunchTemplates", r, tree{
		"launchTemplateName": r.text("LaunchTemplateName"), "createTime": s.stamp(), "createdBy": s.arn("iam", "root"), "defaultVersionNumber": 1, "latestVersionNumber": 1,
		"versions": []any{echo(data)},
	})
	return &answer{tree: tree{"launchTemplate": s.view(template)}}, nil
}

func (s *Server) template(r *request) (*thing, *failure) {
	id := r.text("LaunchTemplateId")
	if name := r.text("LaunchTemplateName"); id == "" && name != "" {
		for _, template := range s.all("LaunchTemplates", nil) {
			if template.data["launchTemplateName"] == name {
				return template, nil
			}
		}
	}
	return s.find("LaunchTemplates", id)
}

func (s *Server) createTemplateVersion(r *request) (*answer, *failure) {
	template, failed := s.template(r)
	if failed != nil {
		return nil, failed
	}
	data, _ := r.form["LaunchTemplateData"].(tree)
	versions, _ := template.data["versions"].([]any)
	template.data["versions"] = append(versions, echo(data))
	template.data["latestVersionNumber"] = len(versions) + 1
	return &answer{tree: tree{"launchTemplateVersion": s.templateVersion(template, len(versions)+1)}}, nil
}

func (s *Server) modifyTemplate(r *request) (*answer, *failure) {
	template, failed := s.template(r)
	if failed != nil {
		return nil, failed
	}
	if number, err := strconv.Atoi(r.text("SetDefaultVersion")); err == nil {
		template.data["defaultVersionNumber"] = number
	}
	return &answer{tree: tree{"launchTemplate": s.view(template)}}, nil
}

func (s *Server) deleteTemplate(r *request) (*answer, *failure) {
	template, failed := s.template(r)
	if failed != nil {
		return nil, failed
	}
	s.remove(template.id)
	return &answer{tree: tree{"launchTemplate": s.view(template)}}, nil
}

func (s *Server) templateVersion(template *thing, number int) tree {
	versions, _ := template.data["versions"].([]any)
	return tree{
		"launchTemplateId": template.id, "launchTemplateName": template.data["launchTemplateName"], "versionNumber": number, "createTime": template.data["createTime"],
		"createdBy": template.data["createdBy"], "defaultVersion": template.data["defaultVersionNumber"] == number, "launchTemplateData": versions[number-1],
	}
}

func (s *Server) describeTemplateVersions(r *request) (*answer, *failure) {
	template, failed := s.template(r)
	if failed != nil {
		return nil, failed
	}
	versions, _ := template.data["versions"].([]any)
	found := []any{}
	for _, wanted := range texts(r.form, "LaunchTemplateVersion") {
		number, err := strconv.Atoi(strings.NewReplacer("$Latest", strconv.Itoa(len(versions)), "$Default", strconv.Itoa(template.data["defaultVersionNumber"].(int))).Replace(wanted))
		if err != nil || number < 1 || number > len(versions) {
			return nil, refuse(http.StatusBadRequest, "InvalidLaunchTemplateId.VersionNotFound", "there is no version %s", wanted)
		}
		found = append(found, s.templateVersion(template, number))
	}
	return &answer{tree: tree{"launchTemplateVersionSet": found}}, nil
}
