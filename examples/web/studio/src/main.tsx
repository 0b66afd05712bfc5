import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App.tsx";
import { ReactorProvider, SERVER, WATCHED } from "./reactor.ts";

addEventListener("hashchange", () => location.reload()); // a share link was put into the address of the open page

createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <ReactorProvider url={SERVER} {...(WATCHED === null ? {} : { role: "viewer", token: WATCHED })}>
      <App />
    </ReactorProvider>
  </StrictMode>,
);
