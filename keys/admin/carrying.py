from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from unfold.admin import ModelAdmin
from unfold.decorators import action
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextareaWidget

from keys.admin.pages import object_page
from keys.searching import SearchInTime
from keys.setup_file import BadSetup
from keys.transfer import export_setup, import_setup

#: Who imports may do all of it.
IMPORT_RIGHTS = [f"keys.{do}_{what}" for do in ("add", "change") for what in ("upstream", "credential", "route")]
EXPORT_RIGHTS = [f"keys.view_{what}" for what in ("upstream", "credential", "route")]


class ImportForm(forms.Form):
    text = forms.CharField(label="YAML", widget=UnfoldAdminTextareaWidget(attrs={"rows": 16, "spellcheck": "false"}))
    passphrase = forms.CharField(
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "off"}),
        help_text="Only when the file holds secrets.",
    )


class CarryingAdmin(SearchInTime, ModelAdmin):  # type: ignore[misc]
    """Export and import of upstreams, models, credentials and routes."""

    actions_list = ["export", "import_"]

    def has_export_permission(self, request: HttpRequest) -> bool:
        return all(map(request.user.has_perm, EXPORT_RIGHTS))

    def has_import_permission(self, request: HttpRequest) -> bool:
        return all(map(request.user.has_perm, IMPORT_RIGHTS))

    @action(description="Export", url_path="export", icon="download", permissions=["export"])  # type: ignore[untyped-decorator]
    def export(self, request: HttpRequest) -> HttpResponse:
        headers = {"Content-Disposition": 'attachment; filename="bridge-setup.yaml"'}
        return HttpResponse(export_setup(), content_type="application/yaml", headers=headers)

    @action(description="Import", url_path="import", icon="upload", permissions=["import"])  # type: ignore[untyped-decorator]
    @method_decorator(sensitive_post_parameters("text", "passphrase"))
    @method_decorator(sensitive_variables())
    def import_(self, request: HttpRequest) -> HttpResponse:
        form = ImportForm(request.POST or None)
        lines = []
        if form.is_valid():
            try:
                imported = import_setup(form.cleaned_data["text"], form.cleaned_data["passphrase"])
            except BadSetup as exc:
                lines = [f"Nothing was imported. {exc}"]
            else:
                self.message_user(request, f"Imported: {imported}.", messages.SUCCESS)
                return redirect(reverse("admin:keys_upstream_changelist"))
        intro = "All of it is stored, or nothing. What the file doesn't mention stays as it is."
        return object_page(
            self,
            request,
            None,
            "keys/form_page.html",
            "Import a setup",
            form=form,
            intro=intro,
            verb="Import",
            lines=lines,
        )
