// A page that was opened as a file may not read other files, so the search shows titles alone.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
