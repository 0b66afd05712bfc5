// What a page loads that has the element and the client.
import "reactor-trio/element";

export * from "reactor-trio";
